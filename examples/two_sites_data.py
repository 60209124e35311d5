"""What examples/two_sites.sh needs beside the commands: images of two sites and a server, and a look at two tables.

python -m examples.two_sites_data draw FOLDER
python -m examples.two_sites_data compare ONE.csv OTHER.csv

    FOLDER/north/knees/<split>/<class>/*.png      a site's own X-rays, and so on for south and for patches
    FOLDER/server/knees.csv                       the server's X-rays
    FOLDER/together/knees.csv, patches.csv        everybody's, for the same run in one process
"""

from __future__ import annotations

import pathlib
import shutil
import sys

import pandas as pd

SITES = ("north", "south")
COLUMNS = ["path", "label", "client", "split"]


def draw(place: pathlib.Path) -> None:
    from tffapps.data import knees, oai, tissue, wilds

    everyone = oai.fssfl_split(oai.read_oai(knees.write_knees(place / "drawn/knees", images=120, size=64)), 0)
    divided = {"client1": "north", "client2": "south"}
    table = _shared_out(place, "knees", everyone.assign(client=everyone.client.replace(divided)))
    table[table.client == "server"].drop(columns="client").to_csv(place / "server" / "knees.csv", index=False)

    patches = wilds.read(tissue.write_tissue(place / "drawn/patches", patches=24, centres=2))
    centres = dict(zip(sorted(set(patches.client)), SITES))
    _shared_out(place, "patches", patches.assign(client=patches.client.map(centres)))


def _shared_out(place: pathlib.Path, kind: str, table: pd.DataFrame) -> pd.DataFrame:
    """Gives each site its files, and writes the manifest of all, with rows in the order in which sites have them."""
    order = table.split.map({"train": 0, "val": 1, "test": 2})
    table = table.assign(order=order).sort_values(["client", "order", "label"], kind="stable")[COLUMNS]
    for number, row in enumerate(table.itertuples()):
        if row.client in SITES:
            own = place / row.client / kind / row.split / row.label / f"{number:04d}.png"
            own.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(row.path, own)
    for folder in ("together", "server"):
        (place / folder).mkdir(exist_ok=True)
    table.to_csv(place / "together" / f"{kind}.csv", index=False)
    return table


def compare(one: str, other: str) -> int:
    """0 if two tables have the same rows and numbers."""
    tables = [pd.read_csv(file).drop(columns="data") for file in (one, other)]
    numbers = list(tables[0].select_dtypes("number").columns)
    words = [column for column in tables[0].columns if column not in numbers]
    if not tables[0][words].equals(tables[1][words]):
        print(f"{one} and {other} are about different things")
        return 1
    largest = (tables[0][numbers] - tables[1][numbers]).abs().max().max()
    print(f"{len(tables[0])} rows, largest difference between the two tables: {largest:.2g}")
    return int(not largest < 1e-4)


if __name__ == "__main__":
    if sys.argv[1] == "draw":
        draw(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(compare(*sys.argv[2:]))
