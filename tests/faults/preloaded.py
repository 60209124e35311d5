"""What the processes of `killing` have in common: TensorFlow is imported but has not begun to work."""

import contextlib

with contextlib.suppress(ImportError):  # the child that needs it will say so
    from tffapps.fedsda import runs as fedsda_runs  # noqa: F401
    from tffapps.fedstyle import runs as fedstyle_runs  # noqa: F401
    from tffapps.fedtransfer import trials as fedtransfer_trials  # noqa: F401
    from tffapps.fnst import runs as fnst_runs  # noqa: F401
    from tffapps.plfl import trials as plfl_trials  # noqa: F401
