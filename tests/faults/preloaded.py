"""What the processes of `killing` have in common: TensorFlow is imported but has not begun to work."""

import contextlib

with contextlib.suppress(ImportError):  # the child that needs it will say so
    from tffapps.fedsda import trials as fedsda_trials  # noqa: F401
    from tffapps.fedstyle import trials as fedstyle_trials  # noqa: F401
    from tffapps.fedtransfer import trials as fedtransfer_trials  # noqa: F401
    from tffapps.fnst import trials as fnst_trials  # noqa: F401
    from tffapps.plfl import trials as plfl_trials  # noqa: F401
