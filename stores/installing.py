"""How to install an extra: stated here alone, for every error message and for the docs' tests."""

#: What pip is given before the extra. The package is in no index: it is installed from the folder
#: of its source, or from the path of a wheel. With a release in an index this becomes its name.
SOURCE = "."


def pip_install(extra: str) -> str:
    """The command that installs an extra, to end an error message with.

    >>> pip_install("redis")
    "pip install '.[redis]' in the project's folder (or give the path of the wheel in place of '.')"
    """
    command = f"pip install '{SOURCE}[{extra}]'"
    if SOURCE != ".":
        return command
    return f"{command} in the project's folder (or give the path of the wheel in place of '.')"
