"""How to install an extra, for error messages and the tests of the docs."""

#: What the pip command names before the extra. The package is in no index: it is installed from the
#: folder of its source, or from the path of a wheel. Once a release is in an index, this becomes
#: the name of the package.
SOURCE = "."


def pip_install(extra: str) -> str:
    """Return the command that installs an extra, for the end of an error message.

    >>> pip_install("redis")
    "pip install '.[redis]' in the project's folder (or give the path of the wheel in place of '.')"
    """
    command = f"pip install '{SOURCE}[{extra}]'"
    if SOURCE != ".":
        return command
    return f"{command} in the project's folder (or give the path of the wheel in place of '.')"
