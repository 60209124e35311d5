"""What several test files need: quiet TensorFlow, a tiny task, engines that are opened once."""

import logging
import os
import signal

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TFFAPPS_OFFLINE"] = "1"  # no test asks a server for weights, in this process or another
# A shell starts what it puts in the background with SIGINT ignored, and the programs under test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
logging.getLogger("tensorflow").setLevel(logging.CRITICAL)


LONGEST = (  # more than a quarter of a minute of processor time each
    "fedsda/test_command", "fedstyle/test_command", "test_commands", "site/test_fnst", "federated/test_round",
    "fedtransfer/test_command", "fnst/test_command", "plfl/test_command", "models/test_cut", "test_first_run",
    "preprocessing/test_pix2pix", "federated/test_statistics", "federated/test_kept", "test_setup",
    "classify/test_attacks", "preprocessing/test_style_transfer", "plfl/test_tables", "test_own_system",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """The largest networks are like DenseNet-121, only slower. Of several processes, none is to begin a long file when
    the others have ended: the long ones, and all of the sites', which wait, come first."""
    for item in items:
        if any(name in item.name for name in ("densenet169", "densenet201")):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: _turn(item.nodeid.partition("::")[0]))


def _turn(file: str) -> int:
    name = file.removeprefix("tests/").removesuffix(".py")
    if name in LONGEST:
        return LONGEST.index(name)
    return len(LONGEST) + (not name.startswith(("site/", "faults/", "secure_sums/")))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder to run commands in: a stand-in is made there once."""
    return tmp_path_factory.mktemp("place")


@pytest.fixture
def here(place):
    """The same, and it is where we are."""
    from tests.applications import working_in

    with working_in(place):
        yield place


@pytest.fixture(scope="session")
def in_process():
    from tffapps.engine import open_engine

    return lambda: open_engine("in-process")


@pytest.fixture(scope="session")
def tiny_task():
    """A network with BatchNorm for 8×8 images of three classes."""
    import tensorflow as tf

    from models import classifiers
    from tffapps.federated.task import Task, cross_entropy

    spec = (tf.TensorSpec([None, 8, 8, 3], tf.float32), tf.TensorSpec([None], tf.int32))
    return Task.of_batches(classifiers.build("tiny", input_shape=(8, 8, 3), classes=3, seed=0), spec, cross_entropy)


@pytest.fixture(scope="session")
def tiny_weights(tiny_task):
    from models.initialise import seed_weights

    seed_weights(tiny_task.model, 0)
    return tiny_task.model.get_weights()


def arrays(client: int, count: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """A client's images and labels, different for each client."""
    rng = np.random.default_rng([7, client])
    labels = rng.integers(0, 3, count).astype(np.int32)
    images = rng.random((count, 8, 8, 3), dtype=np.float32) + labels[:, None, None, None] * 0.3
    return images.astype(np.float32), labels


def dataset(client: int, count: int = 24, batch: int = 8):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(arrays(client, count)).batch(batch)


def largest_difference(first, second) -> float:
    return max(float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in zip(first, second))
