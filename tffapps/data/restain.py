"""`python -m tffapps.data.restain SOURCE OUT --stains FOLDER --tumour A,B`: real tissue in stains that are known."""

import pathlib
import sys
from collections.abc import Sequence

from preprocessing.parser import Parser
from tffapps import cli
from tffapps.errors import UserError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(
        prog=cli.called_as("data.restain"),
        description="Divides one source's images among clients and gives each client's patches other colours: a "
        "benchmark of real tissue in which nothing but the stain differs, and the truth is known.",
    )
    parser.add_argument("source", type=pathlib.Path, metavar="SOURCE", help="a folder of images with classes")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="a new folder; its manifest.csv is for --data")
    parser.add_argument(
        "--stains", type=pathlib.Path, required=True, metavar="FOLDER",
        help="a folder of images for each source that lends its stains; one of under 50 images is never tested",
    )  # fmt: skip
    parser.add_argument("--tumour", required=True, metavar="A,B", help="classes that are tumour; all others are normal")
    parser.add_argument("--size", type=int, default=96, help="pixels on a side of a patch (default 96)")
    parser.add_argument("--per-image", type=int, default=2, help="patches cut from each image (default 2)")
    parser.add_argument("--test-share", type=float, default=0.4, help="of each client's images (default 0.4)")
    parser.add_argument(
        "--brightness", default="0.86,0.93,0.98", metavar="R,G,B", help="of the scanner (default 0.86,0.93,0.98)"
    )
    parser.add_argument("--density", type=float, default=1.3, help="of the scanner (default 1.3)")
    parser.add_argument("--seed", type=int, default=0, help="who gets which images and stains (default 0)")
    options = parser.parse_args(arguments)
    return cli.guarded("data.restain", lambda: _work(options))


def _work(options: object) -> None:
    given = vars(options)
    for name, fine, rule in (
        ("size", given["size"] >= 32, "32 pixels or more"),
        ("per_image", given["per_image"] >= 1, "1 or more"),
        ("test_share", 0 < given["test_share"] < 1, "between 0 and 1"),
        ("density", given["density"] > 0, "above 0"),
        ("seed", given["seed"] >= 0, "0 or more"),
    ):
        if not fine:
            raise UserError(f"--{name.replace('_', '-')} {given[name]}: must be {rule}")
    try:
        brightness: tuple[float, ...] = tuple(float(number) for number in given["brightness"].split(","))
    except ValueError:
        brightness = ()
    if len(brightness) != 3 or not all(0 < number <= 2 for number in brightness):
        raise UserError(f"--brightness {given['brightness']}: give three numbers above 0, such as 0.86,0.93,0.98")
    cli.quiet()

    from tffapps.data import restained, wilds  # import pandas

    how = restained.Restaining(
        tumour=tuple(given["tumour"].split(",")), size=given["size"], per_image=given["per_image"],
        test_share=given["test_share"], brightness=brightness, density=given["density"], seed=given["seed"],
    )  # fmt: skip
    table = restained.write(given["source"], given["stains"], given["out"], how)
    print(wilds.distribution(table).to_string(index=False))
    print(f"--data {given['out'] / restained.MANIFEST}")


if __name__ == "__main__":
    sys.exit(main())
