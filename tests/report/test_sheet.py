import pytest

from tffapps.report.sheet import Broken, number, read


def test_cells_are_text_as_they_stand(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('name,value\n"a, b",0.10\nNA,\n')
    sheet = read(path)
    assert sheet.columns == ("name", "value")
    assert sheet.rows == ({"name": "a, b", "value": "0.10"}, {"name": "NA", "value": ""})
    assert sheet.only({"name": "NA"}).rows == ({"name": "NA", "value": ""},)


@pytest.mark.parametrize(
    "content, why",
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n1,2\n1,2,3\n", "row 3 has 3 fields, the row of column names 2"),
        (b"a,a\n1,2\n", "two columns of the same name"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "is not text"),
        (b'a,b\n"1,2\n', "is not a CSV file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, content, why):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(Broken, match=why):
        read(path)


def test_numbers():
    assert [number(text) for text in ("1.5", "1e3", "", "nan", "inf", "1_0")] == [1.5, 1000.0, None, None, None, None]
