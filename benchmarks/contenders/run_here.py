"""The engines of this project, and plain `fit` without any federation: all images, a client's in a batch, one epoch."""

from __future__ import annotations

import sys

from job import Job, version  # first: it says how much TensorFlow is to print


def main() -> None:
    job = Job(sys.argv[1])
    sys.path.insert(0, __file__.rsplit("/benchmarks/", 1)[0])
    import small_clients
    import tensorflow as tf

    from tffapps.data import pipeline

    side, channels = small_clients.SIDE, small_clients.CHANNELS
    model = small_clients.network()
    model.set_weights(job.weights)

    def batches(paths: list[str], labels: list[int], seed: int) -> tf.data.Dataset:
        return pipeline.batches(
            paths,
            labels,
            size=(side, side),
            channels=channels,
            batch=small_clients.BATCH,
            seed=seed,
            shuffle=False,
            formats=("png",),
        )

    if job.contender == "fit":
        every = [path for paths in job.paths for path in paths], [one for labels in job.labels for one in labels]
        model.compile(tf.keras.optimizers.SGD(small_clients.LEARNING_RATE), "sparse_categorical_crossentropy")
        for number in range(job.rounds + 1):
            model.fit(batches(*every, number), verbose=0)
            job.round_ended()
        job.finish(model.get_weights(), version("tensorflow"))
        return

    from tffapps.engine import open_engine
    from tffapps.federated.fedavg import FedAvg
    from tffapps.federated.round import build_round
    from tffapps.federated.task import Task, cross_entropy

    task = Task.of_batches(model, pipeline.element_spec((side, side), channels), cross_entropy)
    places = list(range(len(job.paths)))
    with open_engine(job.contender):
        round_ = build_round(task, FedAvg(learning_rate=small_clients.LEARNING_RATE))
        state = round_.start(job.weights)
        images = [job.data(place) for place in places] if job.images == "memory" else []

        def data_of(place: int, number: int) -> tf.data.Dataset:
            if images:
                return pipeline.from_arrays(*images[place], batch=small_clients.BATCH, seed=number, shuffle=False)
            return batches(job.paths[place], job.labels[place], number)

        for number in range(job.rounds + 1):
            data = [data_of(place, number) for place in places]
            state = round_.next(state, places, data).state
            job.round_ended()
    job.finish(list(state.weights), version("tensorflow", "tensorflow-federated"))


if __name__ == "__main__":
    main()
