"""What every gRPC channel to a worker, and every server in front of one, is set to.

Nothing is packed: a packed message is unpacked as a whole before gRPC looks how large it is.
"""

_LARGEST_MESSAGE = 2**31 - 1
OPTIONS = [
    ("grpc.max_message_length", _LARGEST_MESSAGE),
    ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
    ("grpc.max_send_message_length", _LARGEST_MESSAGE),
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.per_message_decompression", 0),
]
