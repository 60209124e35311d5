"""pfl-research's simulation: FedAvg over its TensorFlow model, every client in every round.

It evaluates at the first round whatever it is told, so its first round is a little longer than it need be. Its model
tells variables apart by `name`, which under Keras 3 is "kernel" in every layer: all but the last would stay out of the
average. Here they go by their paths.
"""

from __future__ import annotations

import sys

from job import Job, version


def main() -> None:
    job = Job(sys.argv[1])
    import small_clients
    import tensorflow as tf
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.tensorflow import TFModel

    clients = list(range(len(job.paths)))
    source = job.source()
    network = small_clients.network()
    network.set_weights(job.weights)
    network.compile(tf.keras.optimizers.SGD(small_clients.LEARNING_RATE), "sparse_categorical_crossentropy")

    class ByPath(TFModel):
        @property
        def variable_map(self):
            return {variable.path: variable for variable in network.trainable_variables}

    model = ByPath(network, metrics={}, central_optimizer=tf.keras.optimizers.SGD(1.0))
    dataset = FederatedDataset(
        lambda client: Dataset(raw_data=[tf.constant(part) for part in source(client)], user_id=str(client)),
        get_user_sampler("minimize_reuse", clients),
    )

    class Ended(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            job.round_ended()
            return False, Metrics()

    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=job.rounds + 1,
            evaluation_frequency=10**9,
            train_cohort_size=len(clients),
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=dataset, val_data=dataset),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1,
            local_learning_rate=small_clients.LEARNING_RATE,
            local_batch_size=small_clients.BATCH,
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=small_clients.BATCH),
        callbacks=[Ended()],
    )
    job.finish(network.get_weights(), version("pfl", "tensorflow"))


if __name__ == "__main__":
    main()
