"""The YAML file of ``--config-file``: the flags' values by section."""

from __future__ import annotations

from typing import Any, Dict, Optional

from horovod.runner._flags import SECTIONS, SWITCH, Flag, Section

#: Settings that are called otherwise in the file: (section, key) -> destination.
_OTHER_NAMES = {
    ("autotune", "enabled"): "autotune",
    ("stall_check", "enabled"): "no_stall_check",
    ("logging", "level"): "log_level",
    ("logging", "hide_timestamp"): "log_hide_timestamp",
    ("logging", "with_timestamp"): "log_hide_timestamp",
    ("logging", "without_timestamp"): "log_hide_timestamp",
    ("library_options", "tcp"): "tcp_flag",
}
#: Of these the file says the opposite of the destination.
_REVERSED = {("stall_check", "enabled"), ("logging", "with_timestamp")}
_CONTROLLERS = {"gloo": "use_gloo", "mpi": "use_mpi", "jsrun": "use_jsrun"}


def _flag_of(section: Section, key: str) -> Optional[Flag]:
    """Keys are the flags' names, with underscores or dashes, with or without the section's name in front."""
    bare = key.replace("-", "_")
    wanted = {bare, _OTHER_NAMES.get((section.file or "", bare), ""), f"{section.file}_{bare}"}
    return next((flag for flag in section.flags if flag.dest in wanted), None)


def _read_section(section: Section, content: Any, path: str, values: Dict[str, Any]) -> None:
    if not isinstance(content, dict):
        raise ValueError(f"{path}: '{section.file}' must hold settings, `name: value`, one a line")
    for key, value in content.items():
        flag = _flag_of(section, str(key))
        if flag is None:
            raise ValueError(f"{path}: '{section.file}' has no setting '{key}'")
        bare = str(key).replace("-", "_")
        if isinstance(value, bool):
            value = value != ((section.file, bare) in _REVERSED)
        elif flag.kind == SWITCH or not callable(flag.kind):
            raise ValueError(f"{path}: '{key}' of '{section.file}' is {value!r}; expected true or false")
        else:
            try:
                value = flag.kind(str(value))
            except ValueError:
                raise ValueError(f"{path}: '{key}' of '{section.file}' is {value!r}, which cannot be read") from None
        values[flag.dest] = value


def read_config_file(path: str) -> Dict[str, Any]:
    """The settings in the file, by destination. OSError; ValueError, with file and key, for what is not understood."""
    import yaml

    with open(path, encoding="utf-8") as file:
        try:
            content = yaml.safe_load(file)
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is no YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected sections, such as `params:` with settings below")
    sections = {section.file: section for section in SECTIONS if section.file is not None}
    values: Dict[str, Any] = {}
    for name, below in content.items():
        if name == "controller":
            chosen = below if isinstance(below, dict) else {below: True}
            for controller, on in chosen.items():
                dest = _CONTROLLERS.get(str(controller).replace("use_", ""))
                if dest is None:
                    raise ValueError(f"{path}: '{controller}' is no controller; there are {', '.join(_CONTROLLERS)}")
                values[dest] = bool(on)
        elif name not in sections:
            raise ValueError(f"{path}: there is no section '{name}'; there are controller, {', '.join(sections)}")
        elif below is not None:
            _read_section(sections[name], below, path, values)
    return values
