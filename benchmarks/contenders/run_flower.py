"""Flower's simulation: FedAvg by its message API over Ray, one core a client, every client in every round.

As fast as it can be had: a process keeps its network (most examples build one for every message) and trains by
`train_on_batch`; nothing is evaluated, and nothing but the loss and the number of examples is reported. Ray's workers
load TensorFlow before anything else (`before_ray`).
"""

from __future__ import annotations

import functools
import os
import sys

from job import Job, version

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS", "0")


@functools.cache
def _here(file: str):
    """Of a process: the job, the network, and its clients' images (each client's read once, if in memory)."""
    import small_clients
    import tensorflow as tf

    job = Job(file)
    model = small_clients.network()
    model.compile(tf.keras.optimizers.SGD(small_clients.LEARNING_RATE), "sparse_categorical_crossentropy")
    return job, model, functools.cache(job.data) if job.images == "memory" else job.data


def main() -> None:
    file = os.path.abspath(sys.argv[1])
    job = Job(file)
    first = os.path.join(os.path.dirname(os.path.abspath(__file__)), "before_ray")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (first, os.environ.get("PYTHONPATH"))))
    from flwr.client import ClientApp
    from flwr.common import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.server import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client_app, server_app = ClientApp(), ServerApp()

    @client_app.train()
    def train(message, context):
        import run_flower  # not what was pickled: the process's own, with what it keeps

        its, model, source = run_flower._here(file)
        model.set_weights(message.content["arrays"].to_numpy_ndarrays())
        images, labels = source(int(context.node_config["partition-id"]))
        loss = model.train_on_batch(images, labels)
        report = MetricRecord({"loss": float(loss), "num-examples": len(labels)})
        its.went_on()
        content = {"arrays": ArrayRecord(model.get_weights()), "metrics": report}
        return Message(content=RecordDict(content), reply_to=message)

    @server_app.main()
    def serve(grid, context):
        def ended(number, arrays):
            if number:  # it is also asked before the first round
                job.round_ended(counts=False)
            return MetricRecord()

        strategy = FedAvg(
            fraction_train=1.0,
            fraction_evaluate=0.0,
            min_train_nodes=len(job.paths),
            min_available_nodes=len(job.paths),
        )
        result = strategy.start(
            grid, ArrayRecord(job.weights), num_rounds=job.rounds + 1, evaluate_fn=ended, timeout=job.timeout
        )
        job.finish(result.arrays.to_numpy_ndarrays(), version("flwr", "ray", "tensorflow-cpu"))

    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=len(job.paths),
        backend_config={
            "init_args": {"num_cpus": os.cpu_count() or 1},
            "client_resources": {"num_cpus": 1.0, "num_gpus": 0.0},
        },
    )


if __name__ == "__main__":
    main()
