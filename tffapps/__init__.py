"""Federated learning for images: five published systems on TensorFlow Federated and Keras."""

import atexit
import sys

__version__ = "0.2.0"


@atexit.register
def _replace_default_context() -> None:
    """Before Python takes its modules apart: TFF's own default context needs some of them to end."""
    if "tensorflow_federated" in sys.modules:
        from tffapps.engine import replace_default_context

        replace_default_context()
