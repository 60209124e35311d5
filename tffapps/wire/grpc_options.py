"""What every gRPC channel to a worker is set to."""

_LARGEST_MESSAGE = 2**31 - 1
OPTIONS = [
    ("grpc.max_message_length", _LARGEST_MESSAGE),
    ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
    ("grpc.max_send_message_length", _LARGEST_MESSAGE),
]
