"""An attacker with the coordinator's certificate at a site: refused by the gate; without it, by the sandbox."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.engine.closed import need_namespaces
from tests.site.conftest import PIXELS, files
from tests.site.federation import Member
from tests.site.rounds import batches, clients, table_of
from tffapps.engine import open_engine, remote
from tffapps.engine.tff_internals import computation_pb2
from tffapps.engine.tff_messages import executor_pb2
from tffapps.errors import UserError
from tffapps.federated.cohort import play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.site import log as logs
from tffapps.site import policy as policies
from tffapps.site.permits import Permits
from tffapps.site.relay import Refused
from tffapps.wire import jobs
from tffapps.wire.channel import channel
from tffapps.wire.messages import Message

IMAGES = tff.SequenceType(
    tff.types.to_type((tff.TensorType(np.float32, [None, PIXELS, PIXELS, 3]), tff.TensorType(np.int32, [None])))
)
PATH = "train/0/000000"
SECRET = "/etc/hostname"


class Attacker:
    """Somebody with the coordinator's certificate, who sends what he likes."""

    def __init__(self, folder, site: Member) -> None:
        self.channel = channel(site.address, files(folder, "coordinator"))
        self.worker, self.site = remote.RemoteWorker(self.channel, lambda: True), site

    def tries(self, computation: tff.Computation, *arguments: executor_pb2.Value):
        kind = computation.type_signature.result
        sent = tff.framework.serialize_computation(computation)
        argument = None if not arguments else arguments[0] if len(arguments) == 1 else remote.struct(list(arguments))
        return self.worker.evaluate(sent, argument, kind)

    def refused(self, *asked) -> str:
        """Why; the site's log must say the same."""
        with pytest.raises(remote.Denied, match=r"^refused by the site: .*") as error:
            self.tries(*asked)
        (line,) = [line for line in logs.read(self.site.log) if line["decision"] != "passed"][-1:]
        assert line["who"] == "coordinator" and line["out"] == 0
        assert line["decision"] == str(error.value).replace(" by the site", "", 1)
        return str(error.value).removeprefix("refused by the site: ")


@contextlib.contextmanager
def attacking(noise, folder, **options):
    need_namespaces()
    site = Member(noise, folder, "a", **options)
    attacker = Attacker(folder, site)
    try:
        yield attacker
    finally:
        attacker.channel.close()
        site.close()


@pytest.fixture(scope="module")
def attacker(noise, folder):
    with attacking(noise, folder) as one:
        yield one


@pytest.fixture(scope="module")
def ungated(noise, folder):
    """At a site whose gate is open."""
    with attacking(noise, folder, gate=False) as one:
        yield one


def pipeline(*paths: str) -> executor_pb2.Value:
    rows = pd.DataFrame({"path": list(paths), "label": ["class0"] * len(paths)})
    return remote.serialized(batches(rows, shuffle=False), IMAGES)


def array(value: np.ndarray) -> executor_pb2.Value:
    return remote.serialized(value, tff.TensorType(value.dtype, value.shape))


@tff.tensorflow.computation(IMAGES)
def one_image(data):
    return data.reduce(tf.zeros([PIXELS, PIXELS, 3]), lambda _, batch: batch[0][0])


@tff.tensorflow.computation(IMAGES)
def one_image_as_a_report(data):
    return data.reduce(tf.zeros([PIXELS * PIXELS * 3]), lambda _, batch: tf.reshape(batch[0][0], [-1]))


@tff.tensorflow.computation(IMAGES)
def all_images(data):
    none = tf.zeros([0, PIXELS, PIXELS, 3])
    return data.reduce(none, lambda so_far, batch: tf.concat([so_far, batch[0]], 0))


@tff.tensorflow.computation(IMAGES, tff.TensorType(np.float32, [7]))
def images_as_predictions(data, _):
    width = PIXELS * PIXELS * 3
    none = tf.zeros([0, width])
    return data.reduce(none, lambda so_far, batch: tf.concat([so_far, tf.reshape(batch[0], [-1, width])], 0))


@tff.tensorflow.computation
def raw_file():
    return tf.io.read_file(PATH)


@tff.tensorflow.computation
def secret_file():
    return tf.io.read_file(SECRET)


@tff.tensorflow.computation
def writes():
    with tf.control_dependencies([tf.io.write_file("train/written", "by the coordinator")]):
        return tf.constant(1)


@tff.tensorflow.computation
def runs_python():
    return tf.py_function(lambda: 1, [], tf.int32)


@tff.tensorflow.computation
def looks_around():
    return tf.size(tf.io.matching_files("/etc/*"))


@tff.tensorflow.computation(IMAGES)
def sum_of_pixels(data):
    return data.reduce(0.0, lambda total, batch: total + tf.reduce_sum(batch[0]))


def test_pixels_do_not_leave(attacker, ungated):
    image, vector = pipeline(PATH), array(np.zeros(7, np.float32))
    unsent = " in it, and no array of this shape was sent"
    assert attacker.refused(one_image, image) == f"a result with float[8,8,3]{unsent}"
    assert attacker.refused(one_image_as_a_report, image) == f"a result with float[192]{unsent}"
    assert "float[?,8,8,3] in it, which is no prediction" in attacker.refused(all_images, image)
    assert "float[?,192] in it, which is no prediction" in attacker.refused(images_as_predictions, image, vector)
    assert "the operation ReadFile" in attacker.refused(raw_file)
    assert ungated.tries(one_image, image).shape == (PIXELS, PIXELS, 3)  # so it is the gate that does it
    assert ungated.tries(raw_file).numpy().startswith(b"\x89PNG")


def test_files_programs_and_what_is_unknown(attacker, ungated):
    for computation, operation in (
        (secret_file, "ReadFile"),
        (writes, "WriteFile"),
        (runs_python, "EagerPyFunc"),
    ):
        said = attacker.refused(computation)
        assert said == f"a computation with the operation {operation}, which is not on the site's list"
        with pytest.raises(remote.WorkFailed, match=r"^its worker failed \("):  # by the sandbox alone
            ungated.tries(computation)
    assert "the operation MatchingFiles" in attacker.refused(looks_around)
    assert ungated.tries(looks_around).numpy() == 0
    elsewhere = "which is none of the site's numbered images"
    assert attacker.refused(sum_of_pixels, pipeline(SECRET)) == f"a pipeline over '{SECRET}', {elsewhere}"
    assert elsewhere in attacker.refused(sum_of_pixels, pipeline(f"train/0/../../{PATH}"))
    assert elsewhere in attacker.refused(sum_of_pixels, pipeline(f"http://127.0.0.1/{PATH}"))
    assert "which the site does not have" in attacker.refused(sum_of_pixels, pipeline("train/0/000099"))
    assert ungated.tries(sum_of_pixels, pipeline(SECRET)).numpy() == 0  # it could not be read, and was left out
    assert attacker.tries(sum_of_pixels, pipeline(PATH)).numpy() > 0


def test_a_type_that_is_not_that_of_the_graph(attacker):
    """What is said of a result is compared with what comes."""
    lie = computation_pb2.Computation()
    lie.CopyFrom(tff.framework.serialize_computation(one_image))
    lie.type.function.result.tensor.dims[:] = []
    with pytest.raises(remote.Denied, match=r"an answer with float\[8,8,3\] in it where float\[\] was to come"):
        attacker.worker.evaluate(lie, pipeline(PATH), one_image.type_signature.result)


def test_values_are_no_results(attacker):
    """A pipeline that is asked for itself would come with all its images."""
    worker = attacker.worker
    reference = worker._create(pipeline(PATH))
    with pytest.raises(remote.Denied, match="only the result of a call can be asked for"):
        worker._ask(worker._compute, executor_pb2.ComputeRequest(executor=worker._executor, value_ref=reference))
    element = executor_pb2.CreateStructRequest.Element(value_ref=reference)
    with pytest.raises(remote.Denied, match="CreateStruct is nothing that a round needs"):
        worker._ask(
            worker._stub.CreateStruct, executor_pb2.CreateStructRequest(executor=worker._executor, element=[element])
        )


@tff.tensorflow.computation(IMAGES, tff.TensorType(np.float32, [3]))
def three_numbers_an_image(data, weights):
    none = tf.zeros([0, 3])
    add = lambda so_far, batch: tf.concat([so_far, tf.reduce_mean(batch[0], [1, 2]) * weights], 0)  # noqa: E731
    return data.reduce(none, add)


def test_what_the_policy_says(noise, folder):
    strict = dataclasses.replace(
        policies.default(), least_images=2, a_day=2, predictions=False, methods=frozenset({"fedavg"}),
        jobs=frozenset({"fedsda/stains"}),
    )  # fmt: skip
    two = pipeline(PATH, "train/0/000001")
    with attacking(noise, folder, policy=strict) as attacker:
        worker = attacker.worker
        assert "it was not said what it is for" in attacker.refused(sum_of_pixels, two)
        with pytest.raises(remote.Denied, match="the method 'fedprox'; the site's policy allows fedavg"):
            worker.call(jobs.ABOUT, jobs.About("classify", "fedprox", "run").to_bytes())
        worker.call(jobs.ABOUT, jobs.About("classify", "fedavg", "run").to_bytes())
        assert "an update of 1 image; the site's policy asks for 2" in attacker.refused(sum_of_pixels, pipeline(PATH))
        weights = array(np.ones(3, np.float32))
        assert "the site's policy keeps them" in attacker.refused(three_numbers_an_image, two, weights)
        for _ in range(2):
            attacker.tries(sum_of_pixels, two)
        assert "2 rounds today are done, as many as" in attacker.refused(sum_of_pixels, two)
        for name, rows, said in (("fnst/grams", 3, "the job 'fnst/grams'"), ("fedsda/stains", 1, "of 1 images")):
            request = Message({jobs.JOB: name}, {"rows": np.arange(rows)})
            with pytest.raises(remote.Denied, match=f"{said}.*; the site's policy"):
                worker.call(jobs.ASK, jobs.to_ask(request.identity, "a", request.to_bytes()))
        lines = list(logs.read(attacker.site.log))
        again = Permits(strict, lines, lambda: logs.check(attacker.site.log))  # as of a site that is started anew
        again.methods[jobs.ABOUT]("coordinator", jobs.About("classify", "fedavg", "run").to_bytes())
        with pytest.raises(Refused, match="2 rounds today"):
            again.compute("coordinator", 2, update=True)
        assert logs.check(attacker.site.log).lines == len(lines)


def test_honest_rounds_pass_and_a_refusal_names_the_site(noise, folder, tiny_task, tiny_weights):
    need_namespaces()
    few = dataclasses.replace(policies.default(), least_images=15, methods=frozenset({"fedavg"}))  # a has 12
    round_ = build_round(tiny_task, FedAvg(learning_rate=0.1))
    with contextlib.ExitStack() as stack:
        sites = [Member(noise, folder, name, policy=few) for name in ("a", "b")]
        for site in sites:
            stack.callback(site.close)
        addresses = ",".join(site.address for site in sites)
        engine = stack.enter_context(open_engine(addresses, files(folder, "coordinator")))
        with pytest.raises(UserError, match=r"^localhost:\d+: refused by the site: the method 'fedprox'; the site's"):
            engine.about("classify", "fedprox", "run")
        engine.about("classify", "fedavg", "run")
        outcome = play(round_, round_.start(tiny_weights), clients(table_of(engine, noise)), 1, min_clients=1)
        assert list(outcome.reports) == ["b"]
        said = "refused by the site: an update of 12 images; the site's policy asks for 15 at least"
        assert outcome.left_out == {"a": f"failed: {sites[0].address}: {said}"}
        heads = engine.log_heads()
        assert logs.check(sites[1].log, logs.parse_head(heads["b"])).lines > 5 and any(
            line["asked"] == "Compute" and line["what"] == "update of 18 images" and line["out"] > 1000
            for line in logs.read(sites[1].log)
        )
