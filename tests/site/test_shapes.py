"""What a call may result in, and what is found in a graph: on messages made by hand, without TensorFlow."""

from __future__ import annotations

import pytest

from tffapps.engine.tff_messages import computation_pb2, executor_pb2, graph_pb2
from tffapps.site import gate, graphs
from tffapps.site.shapes import Leaf, NotAllowed, allowed, check_answer

FLOAT, INT, TEXT = 1, 3, 7
KERNEL, BIAS, SCALAR = Leaf(FLOAT, (192, 200)), Leaf(FLOAT, (200,)), Leaf(FLOAT, ())
SENT = [KERNEL, BIAS]
CLUSTERS = Leaf(FLOAT, (3, 4, 32))  # FPL: four prototypes of each of three classes
REPORT = 64 + 8**2 + 2 * len(SENT)


@pytest.mark.parametrize(
    ("result", "update", "rows"),
    [
        ([KERNEL, BIAS, SCALAR, Leaf(FLOAT, (4,))], True, set()),
        ([Leaf(9, (192, 200)), Leaf(9, (200,))], True, set()),  # integers, as secure sums are
        ([Leaf(FLOAT, (2,)), Leaf(INT, (10972, 1)), BIAS], True, set()),  # 38,400 values of 8 bits, 28 bits a number
        ([Leaf(INT, (-1,)), Leaf(FLOAT, (-1, 200))], False, {0, 1}),
        ([Leaf(FLOAT, (REPORT,))], True, set()),
    ],
)
def test_updates_reports_and_predictions(result, update, rows):
    rule = allowed(result, SENT, images=5, classes=3)
    assert rule.update == update and rule.rows == rows


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ([KERNEL, KERNEL], r"float\[192,200\] in it, and no array of this shape was sent"),  # sent once
        ([KERNEL, Leaf(INT, (10972, 1))], r"int32\[10972,1\] in it, and no"),
        ([Leaf(INT, (10973, 1))], "no array of this shape"),
        ([Leaf(FLOAT, (REPORT + 1,))], "no array of this shape"),
        ([Leaf(FLOAT, (REPORT,)), SCALAR], "no array of this shape"),
        ([Leaf(FLOAT, (2, 2))], "no array of this shape"),
        ([Leaf(FLOAT, (-1, 199))], r"float\[\?,199\] in it, which is no prediction"),
        ([Leaf(FLOAT, (-1, -1))], "no prediction"),
        ([Leaf(FLOAT, (200, -1))], "no prediction"),
        ([Leaf(FLOAT, (-1, 8, 200))], "no prediction"),
        ([Leaf(TEXT, ())], "texts do not leave"),
    ],
)
def test_what_is_none_of_these(result, said):
    with pytest.raises(NotAllowed, match=said):
        allowed(result, SENT, images=5, classes=3)


def test_one_prototype_of_several():
    of_client = [Leaf(FLOAT, (3, 32)), Leaf(FLOAT, (3,))]
    assert allowed([KERNEL, BIAS, *of_client], [*SENT, CLUSTERS], images=5, classes=3).update
    for result in ([of_client[0]] * 2, [CLUSTERS, of_client[0]], [Leaf(FLOAT, (4, 32))]):
        with pytest.raises(NotAllowed, match="no array of this shape"):
            allowed(result, [*SENT, CLUSTERS], images=5, classes=3)


def answer(*shapes: tuple[int, ...]) -> executor_pb2.Value:
    value = executor_pb2.Value()
    for shape in shapes:
        array = value.struct.element.add().value.array
        array.dtype = FLOAT
        array.shape.dim[:] = shape
    return value


def test_an_answer_is_what_was_said():
    result = [Leaf(FLOAT, (-1, 200)), SCALAR]
    rule = allowed(result, SENT, images=5, classes=3)
    check_answer(answer((5, 200), ()), result, rule)
    for given, said in (
        (answer((6, 200), ()), "6 predictions, of 5 images at most"),
        (answer((5, 201), ()), r"float\[5,201\] in it where float\[\?,200\] was to come"),
        (answer((5, 200)), "an answer of 1 arrays, 2 were to come"),
    ):
        with pytest.raises(NotAllowed, match=said):
            check_answer(given, result, rule)
    swollen = answer((5, 200), ())
    swollen.struct.element[1].value.array.content = bytes(5000)
    with pytest.raises(NotAllowed):
        check_answer(swollen, result, rule)


def sequence(graph: graph_pb2.GraphDef) -> executor_pb2.Value.Sequence:
    return executor_pb2.Value.Sequence(serialized_graph_def=graph.SerializeToString())


def test_everything_in_a_graph_is_found():
    graph = graph_pb2.GraphDef()
    graph.node.add(op="Const").attr["value"].tensor.dtype = TEXT
    graph.node[0].attr["value"].tensor.string_val.append(b"plain")
    graph.node.add(op="__inference_1").attr["list"].list.tensor.add(dtype=TEXT, string_val=[b"listed"])
    function = graph.library.function.add()
    function.signature.name = "__inference_1"
    packed = function.node_def.add(op="WriteFile").attr["value"].tensor
    packed.dtype, packed.tensor_content = TEXT, b"\x02\x82\x01" + b"ab" + b"c" * 130
    packed.tensor_shape.dim.add(size=2)
    found = graphs.of_sequence(sequence(graph))
    assert found.operations == {"Const", "WriteFile"}
    assert found.texts == {b"plain", b"listed", b"ab", b"c" * 130}
    packed.tensor_content += b"d"
    with pytest.raises(graphs.Unreadable, match="texts that cannot be read"):
        graphs.of_sequence(sequence(graph))
    function.signature.name = "WriteFile"  # so that it would look like a call of it
    with pytest.raises(graphs.Unreadable, match="as operations are"):
        graphs.of_sequence(sequence(graph))
    with pytest.raises(graphs.Unreadable, match="no graph"):
        graphs.of_sequence(executor_pb2.Value.Sequence(zipped_saved_model=b"x"))


def test_only_plain_blocks_are_walked():
    inner = computation_pb2.Computation()
    getattr(inner, "lambda").result.call.function.intrinsic.uri = "federated_map"
    with pytest.raises(graphs.Unreadable, match="of the kind intrinsic"):
        graphs.of_computation(inner)


def test_no_operation_of_the_list_opens_anything():
    lists = gate.operations()
    assert set(lists) == {"computation", "pipeline", "description", "texts"}
    assert lists["texts"] < lists["pipeline"] | lists["computation"]
    assert not lists["texts"] & {"Add", "ScatterNd", "Substr", "Cast"}  # they make texts
    assert "ReadFile" not in lists["computation"] and "ReadFile" in lists["pipeline"]
    for operations in lists.values():
        suspicious = [
            name for name in operations if any(word in name for word in ("Write", "Save", "Py", "File", "Rpc"))
        ]
        assert set(suspicious) <= {"ReadFile"}
        assert not operations & {
            "DatasetFromGraph",
            "CacheDatasetV2",
            "PrintV2",
            "StringJoin",
            "AsString",
            "LoadDataset",
        }
