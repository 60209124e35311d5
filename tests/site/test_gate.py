"""An attacker with the coordinator's certificate at a site: refused by the gate; without it, by the sandbox."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.engine.closed import need_namespaces
from tests.site.attacker import IMAGES, PATH, array, attacking, pipeline
from tests.site.conftest import PIXELS, files
from tests.site.federation import Member
from tests.site.rounds import clients, table_of
from tffapps.engine import open_engine, remote
from tffapps.engine.tff_internals import computation_pb2
from tffapps.engine.tff_messages import executor_pb2, graph_pb2
from tffapps.errors import UserError
from tffapps.federated.cohort import play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.site import log as logs
from tffapps.site import policy as policies
from tffapps.site.permits import Permits
from tffapps.site.relay import Refused
from tffapps.wire import jobs
from tffapps.wire.messages import Message

SECRET = "/etc/hostname"


@pytest.fixture(scope="module")
def attacker(noise, folder):
    with attacking(noise, folder) as one:
        yield one


@pytest.fixture(scope="module")
def ungated(noise, folder):
    """At a site whose gate is open."""
    with attacking(noise, folder, gate=False) as one:
        yield one


@pytest.fixture(scope="module")
def naked(noise, folder):
    """At a site that has neither gate nor sandbox."""
    with attacking(noise, folder, gate=False, sandboxed=False) as one:
        yield one


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
def connects():
    return tf.io.read_file("gs://bucket/file")  # a store of files on the net, which TensorFlow's own code calls


def made_up():
    """A computation with an operation that there is not."""
    known = tff.framework.serialize_computation(sum_of_pixels)
    other = computation_pb2.Computation.FromString(known.SerializeToString())
    graph = graph_pb2.GraphDef.FromString(other.tensorflow.graph_def.value)
    graph.node.add(name="unheard", op="Unheard")
    other.tensorflow.graph_def.value = graph.SerializeToString()
    return other


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


def test_files_programs_and_what_is_unknown(attacker, ungated, naked):
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
    assert naked.tries(secret_file).numpy() == pathlib.Path(SECRET).read_bytes()  # so it can be done
    assert naked.tries(writes).numpy() == 1 and naked.tries(looks_around).numpy() > 0
    assert [(one.site._folder / "train/written").exists() for one in (attacker, ungated, naked)] == [False, False, True]
    elsewhere = "which is none of the site's numbered images"
    assert attacker.refused(sum_of_pixels, pipeline(SECRET)) == f"a pipeline over '{SECRET}', {elsewhere}"
    assert elsewhere in attacker.refused(sum_of_pixels, pipeline(f"train/0/../../{PATH}"))
    assert elsewhere in attacker.refused(sum_of_pixels, pipeline(f"http://127.0.0.1/{PATH}"))
    assert "which the site does not have" in attacker.refused(sum_of_pixels, pipeline("train/0/000099"))
    assert ungated.tries(sum_of_pixels, pipeline(SECRET)).numpy() == 0  # it could not be read, and was left out
    assert attacker.tries(sum_of_pixels, pipeline(PATH)).numpy() > 0


def test_sockets_and_operations_that_there_are_not(attacker, ungated, caplog):
    assert "the operation ReadFile" in attacker.refused(connects)
    with pytest.raises(remote.WorkFailed, match=r"^its worker failed \("):
        ungated.tries(connects)
    assert "libcurl" in caplog.text  # it did try, and could not even ask for an address
    number = sum_of_pixels.type_signature.result
    with pytest.raises(remote.Denied, match="a computation with the operation Unheard, which is not on"):
        attacker.worker.evaluate(made_up(), pipeline(PATH), number)
    assert any("operation Unheard" in line["decision"] for line in logs.read(attacker.site.log))
    with pytest.raises(remote.WorkFailed, match=r"^its worker failed \("):
        ungated.worker.evaluate(made_up(), pipeline(PATH), number)


def hidden_path(where: str) -> executor_pb2.Value:
    """A pipeline over one image whose path stands in no constant: it is filled in when a function is called."""

    def look(number):
        read = lambda: tf.io.decode_png(tf.io.read_file(PATH), 3)  # noqa: E731
        image = tf.switch_case(tf.cast(number, tf.int32), [read, lambda: tf.zeros([PIXELS, PIXELS, 3], tf.uint8)])
        return tf.cast(tf.ensure_shape(image, [PIXELS, PIXELS, 3]), tf.float32), tf.constant(0)

    value = remote.serialized(tf.data.Dataset.range(1).map(look).batch(1), IMAGES)
    graph = graph_pb2.GraphDef.FromString(value.sequence.serialized_graph_def)
    functions = graph.library.function
    ((function, constant),) = [
        (function, node.attr["value"])
        for function in functions
        for node in function.node_def
        if "value" in node.attr and PATH.encode() in node.attr["value"].tensor.string_val
    ]
    path = constant.SerializeToString()
    constant.placeholder = "path"
    if where == "default":
        function.signature.attr.add(name="path", type="tensor").default_value.ParseFromString(path)
    else:
        nodes = [node for each in functions for node in each.node_def if "branches" in node.attr]
        branches = [one for node in nodes for one in node.attr["branches"].list.func]
        (branch,) = [one for one in branches if one.name == function.signature.name]
        if where == "call":
            branch.attr["path"].ParseFromString(path)
        else:
            constant.ParseFromString(path)
            branch.name = "SymbolicGradient"
    return executor_pb2.Value(sequence={"serialized_graph_def": graph.SerializeToString()})


def test_paths_are_not_hidden(attacker, ungated):
    """What is not counted would be outside of rounds, of least numbers and of the budget."""
    assert ungated.tries(sum_of_pixels, hidden_path("default")).numpy() > 0  # so it can be done
    open_ = "a graph that leaves open what is in it"
    assert attacker.refused(sum_of_pixels, hidden_path("default")) == open_
    assert attacker.refused(sum_of_pixels, hidden_path("call")) == open_
    said = attacker.refused(sum_of_pixels, hidden_path("elsewhere"))
    assert said == "a call of 'SymbolicGradient', which is not in the graph"
    nameless = remote.serialized(tf.data.Dataset.from_tensors("").map(name_as_image), IMAGES)
    assert attacker.refused(sum_of_pixels, nameless) == "a pipeline that reads files and names none"


def name_as_image(name):
    image = tf.ensure_shape(tf.io.decode_png(tf.io.read_file(name), 3), [PIXELS, PIXELS, 3])
    return tf.cast(image, tf.float32)[tf.newaxis], tf.zeros([1], tf.int32)


def joined_path(how: str) -> executor_pb2.Value:
    """A pipeline over the site's first image, with a path of the site's own in it that is made into another one."""
    joined = {
        "Add": lambda one, other: tf.raw_ops.Add(x=one, y=other),
        "ScatterNd": lambda one, other: tf.raw_ops.ScatterNd(indices=[[0], [0]], updates=[one, other], shape=[1])[0],
    }[how]

    def look(path):
        name = joined(tf.strings.substr(path, 0, len(PATH) - 1), tf.constant(PATH[-1]))
        return name_as_image(name)

    return remote.serialized(tf.data.Dataset.from_tensors("train/0/000001").map(look), IMAGES)


@pytest.mark.parametrize("how", ["Add", "ScatterNd"])
def test_paths_are_not_made_of_parts(how, attacker, ungated):
    """Every image under the path of one: what is not named would not be counted."""
    shown = 255 / 2 * ungated.tries(sum_of_pixels, pipeline(PATH)).numpy()  # of two epochs, from 0 to 1
    assert ungated.tries(sum_of_pixels, joined_path(how)).numpy() == pytest.approx(shown)  # so it can be done
    said = attacker.refused(sum_of_pixels, joined_path(how))
    assert said == f"a pipeline with the operation {how} on texts, of which it could make a path"


def keeping():
    """A computation whose variable would keep what it was called with before, under a name of the coordinator's."""
    with tf.Graph().as_default() as graph:
        variant = tf.compat.v1.placeholder(tf.variant, [])
        data = tf.data.experimental.from_variant(variant, tff_spec())
        total = data.reduce(0.0, lambda total, batch: total + tf.reduce_sum(batch[0]))
        kept = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="kept", container="kept")
        there = tf.raw_ops.VarIsInitializedOp(resource=kept)
        before = tf.cond(there, lambda: tf.raw_ops.ReadVariableOp(resource=kept, dtype=tf.float32), lambda: -1.0)
        with tf.control_dependencies([before]):
            done = tf.raw_ops.AssignVariableOp(resource=kept, value=total + 1.0)
        with tf.control_dependencies([done]):
            result = tf.identity(before)
    return with_graph(sum_of_pixels, graph.as_graph_def(), variant.name, result.name)


def tff_spec():
    return (tf.TensorSpec([None, PIXELS, PIXELS, 3], tf.float32), tf.TensorSpec([None], tf.int32))


def with_graph(like, graph_def, argument: str, result: str):
    """A computation of this type with a graph that no tool would make."""
    other = computation_pb2.Computation.FromString(tff.framework.serialize_computation(like).SerializeToString())
    other.tensorflow.graph_def.value = graph_def.SerializeToString()
    other.tensorflow.parameter.sequence.variant_tensor_name = argument
    other.tensorflow.result.tensor.tensor_name = result
    other.tensorflow.initialize_op = ""
    return other


def test_nothing_is_left_at_the_worker(attacker):
    """What one call has seen, which was counted, another, without images, which is not, does not find again."""
    kind = sum_of_pixels.type_signature.result
    found = [attacker.worker.evaluate(keeping(), data, kind).numpy() for data in (pipeline(PATH), pipeline(PATH))]
    assert found == [-1.0, -1.0]


def test_what_is_refused_writes_nothing_on_the_owners_screen(attacker):
    known = made_up()
    graph = graph_pb2.GraphDef.FromString(known.tensorflow.graph_def.value)
    graph.node.add(name="screen", op="\x1b[2J\x9b31m\u202e\nrefused nothing")
    known.tensorflow.graph_def.value = graph.SerializeToString()
    with pytest.raises(remote.Denied) as error:
        attacker.worker.evaluate(known, pipeline(PATH), sum_of_pixels.type_signature.result)
    *_, line = logs.read(attacker.site.log)
    assert "?[2J?31m??refused nothing" in str(error.value)
    assert str(error.value).isprintable() and logs.shown(line).isprintable()


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
