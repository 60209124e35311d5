"""What a system declares of itself, and the flags that all systems have."""

import dataclasses
import importlib
import importlib.util
import pathlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from models.names import FLOAT32, PRECISIONS
from tffapps import engine
from tffapps.errors import UserError
from tffapps.privacy.stages import Stage
from tffapps.settings import Flags, Setting, setting, settings_of
from tffapps.wire.certificates import Certificates

# How the round is chosen that stands for a run.
LAST, VALIDATION, OF_PAPER = "last", "validation", "paper"
CHOSEN = {LAST: "last round", VALIDATION: "lowest validation loss", OF_PAPER: "as the paper does"}
DEMO, SMALL, PAPER = "demo", "small", "paper"  # profiles; small: what demo falls back to without pretrained weights


@dataclasses.dataclass(frozen=True)
class Common:
    """Flags of every application. None is in a run's key: images count by their fingerprint, weights by their hash,
    methods and seeds are labels of a run."""

    data: str = setting(
        "", "folder or manifest CSV; without it a stand-in is made", metavar="FOLDER_OR_MANIFEST", in_key=False
    )
    methods: tuple[str, ...] = setting((), "which methods to run, comma-separated", metavar="A,B", in_key=False)
    seeds: tuple[int, ...] = setting((0, 1, 2), "seeds, comma-separated", metavar="0,1,2", least=0, in_key=False)
    weights: str = setting("random", "imagenet, random or a file", metavar="imagenet|random|FILE", in_key=False)
    engine: str = setting(
        "in-process",
        f"where rounds run: {', '.join(engine.NAMES)}, or the sites' HOST:PORT,HOST:PORT; NAME@HOST:PORT waits there"
        " for a site that joins",
        metavar="ENGINE",
        in_key=False,
    )
    devices: str = setting(
        "1",
        "clients side by side, each on a GPU or, without one, a part of the processor (docs/engines.md)",
        metavar="N|all",
        in_key=False,
    )
    precision: str = setting(
        FLOAT32,
        "what the trained part of the network computes in (docs/engines.md); in the key where it is not float32",
        choices=PRECISIONS,
        in_key=False,
    )
    cert: str = setting("", "sites: the coordinator's certificate", metavar="FILE", in_key=False)
    key: str = setting("", "sites: its key", metavar="FILE", in_key=False)
    ca: str = setting("", "sites: the authority of the sites' certificates", metavar="FILE", in_key=False)
    revoked: str = setting("", "sites: certificates that count no more", metavar="FILE", in_key=False)
    results: str = setting("results", "folder for tables and runs", metavar="FOLDER", in_key=False)
    min_clients: int = setting(
        1, "a round with fewer good updates is played once more, then the run stops", least=1, in_key=False
    )
    clients_per_round: int = setting(
        0, "so many clients are drawn for each round; 0: all (in the key where it is fewer)", least=0, in_key=False
    )
    tensorboard: bool = setting(False, "write TensorBoard logs into the run folders", in_key=False)
    mlflow: str = setting(
        "", "log rounds to MLflow too (requirements-mlflow.txt)", metavar="FOLDER_OR_URI", in_key=False
    )
    splits: int = setting(
        0, "folds of a cross-validation by subject; 0: train and test as the data says", least=0, most=100, in_key=False
    )
    repeats: int = setting(1, "cross-validations, each with another shuffle", least=1, most=100, in_key=False)
    only_splits: tuple[str, ...] = setting((), "of the splits these alone", metavar="r0f0,r0f1", in_key=False)
    group: str = setting(
        "auto",
        "what is never divided: subjects, or near-duplicates; auto: subjects if the data has them",
        choices=("auto", "subject", "image", "duplicates"),
        in_key=False,
    )
    val_share: float = setting(
        0.2,
        "of the training subjects, for validation, where the data has none of its own",
        least=0,
        below=1,
        in_key=False,
    )

    select: str = setting(
        "auto",
        "which round stands for a run: the last, that of the lowest validation loss, or the paper's rule; auto: the"
        " system's own",
        choices=("auto", LAST, VALIDATION, OF_PAPER),
        in_key=False,  # a label of runs that it changes
    )
    tune: str = setting(
        "",
        "settings to choose on validation images, with the same budget for every method",
        metavar='"learning_rate=0.001,0.01;mu=0.1,1"',
        repeated=True,
        in_key=False,  # what was chosen is
    )

    @property
    def split_count(self) -> int:
        """How many divisions of the images every method is played on."""
        return len(self.only_splits) or max(1, self.splits * self.repeats)

    @property
    def across_sites(self) -> bool:
        return bool(engine.addresses(self.engine))

    def certificates(self) -> Certificates | None:
        """What the coordinator shows to sites, if there are any."""
        return Certificates(self.cert, self.key, self.ca, self.revoked) if self.across_sites else None

    def check_mlflow(self) -> None:
        """Refuses --mlflow where there is no MLflow."""
        if self.mlflow and importlib.util.find_spec("mlflow") is None:
            raise UserError(f"--mlflow {self.mlflow}: no MLflow here; pip install --no-deps -r requirements-mlflow.txt")

    def check_clients(self, count: int) -> None:
        """Refuses a federation that is smaller than --min-clients or --clients-per-round asks for."""
        if self.min_clients > count:
            raise UserError(f"--min-clients {self.min_clients}: there are only {count} clients")
        if self.clients_per_round > count:
            raise UserError(f"--clients-per-round {self.clients_per_round}: there are only {count} clients; 0 is all")
        if 0 < self.clients_per_round < self.min_clients:
            raise UserError(
                f"--min-clients {self.min_clients}: only {self.clients_per_round} play a round (--clients-per-round)"
            )


def no_networks(flags: Flags) -> Mapping[str, Sequence[str]]:
    """`App.networks` of a system that has no use for ImageNet's weights."""
    return {}


@dataclasses.dataclass(frozen=True)
class App:
    """One system. Its package holds, beside this object (APP), modules of fixed names, imported when they are needed:

    trials   `run(flags)`: the command's work
    data     `look(flags)`: what it would find in --data (`python -m tffapps.data`)
    page     `PAGE`: its section of the page
    jobs     `JOBS`: what a site prepares for it when asked, by name; not every system has any
    """

    name: str
    package: str  # where its modules are: __name__
    summary: str  # in a list of systems
    description: str
    settings: tuple[type, ...]  # dataclasses whose fields become flags, beside those of Common
    profiles: dict[str, dict[str, Any]]
    methods: tuple[str, ...]
    commands: tuple[str, ...] = ()  # modules with a `main(arguments)` of their own: tffapps fedstyle query …
    on_request: tuple[str, ...] = ()  # of the methods, those that are played only when --methods names them
    default_profile: str = DEMO
    narrowed: tuple[tuple[str, str], ...] = ()  # labels that tell runs apart, and the flags their values are from
    not_across_sites: dict[str, str] | None = None  # methods that cannot, and why; None: the application cannot at all
    server_has_data: bool = False  # across sites --data is then the server's own
    composes: bool = False  # whether --methods may join methods by +, as fnst+turned
    divides: bool = False  # whether --splits divides its images anew
    selects: tuple[str, ...] = (LAST,)  # what --select may be, its own rule first
    tunes: bool = False  # whether it takes --tune
    mixes: bool = False  # whether it takes --precision: its networks are made as `Network.precision` says
    # a flag that takes imagenet, random or a file → the networks that these flags need such weights for
    networks: Callable[[Flags], Mapping[str, Sequence[str]]] = no_networks
    stages: tuple[Stage, ...] = ()  # what its clients hand out beside updates, and what protects it

    def part(self, name: str) -> ModuleType:
        """One of its modules."""
        return importlib.import_module(f"{self.package}.{name}")

    def has(self, name: str) -> bool:
        return importlib.util.find_spec(f"{self.package}.{name}") is not None

    def folder(self, flags: Flags) -> pathlib.Path:
        """Where its tables and runs are: those of the profile small never replace a real network's."""
        root = pathlib.Path(flags[Common].results)
        return (root / SMALL if flags.profile == SMALL else root) / self.name

    def flags(self) -> dict[str, Setting]:
        """Every setting that is a flag, by name."""
        found: dict[str, Setting] = {}
        for owner in (Common, *self.settings):
            for each in settings_of(owner):
                if each.on_command_line and found.setdefault(each.name, each).default != each.default:
                    raise ValueError(f"{owner.__name__}.{each.name}: another setting has this name, another default")
        return found
