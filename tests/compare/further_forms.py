"""Further forms: texts that are put together, collections, tables that are filled, functions that compare when they are called."""

from __future__ import annotations

from form_case import expression

FURTHER_EXPRESSIONS = [
    expression(
        "repr(x.device) == \"device(type='cuda', index=0)\"",
        "repr(x.device) == \"device(type='cuda', index=0)\"",
    ),
    expression(
        'f"{x.device!r}" == "device(type=\'cuda\', index=0)"',
        'f"{x.device!r}" == "device(type=\'cuda\', index=0)"',
    ),
    expression('f"on {x.device}" == "on cuda:0"', 'f"on {x.device}" == "on cuda:0"'),
    expression('f"on {x.device}".endswith("cuda:0")', 'f"on {x.device}".endswith("cuda:0")'),
    expression(
        'f"run-{x.device.type}".endswith("cuda")', 'f"run-{x.device.type}".endswith("cuda")'
    ),
    expression(
        'f"run-{x.device.type}".endswith("-cuda")', 'f"run-{x.device.type}".endswith("-cuda")'
    ),
    expression(
        '("run-" + x.device.type).endswith("cuda")', '("run-" + x.device.type).endswith("cuda")'
    ),
    expression('"run-%s" % x.device.type == "run-cuda"', '"run-%s" % x.device.type == "run-cuda"'),
    expression(
        '"run-{}".format(x.device.type) == "run-cuda"',
        '"run-{}".format(x.device.type) == "run-cuda"',
    ),
    expression(
        'str(x.device).endswith("0") and str(x.device)[0] == "c"',
        'str(x.device).endswith("0") and str(x.device)[0] == "c"',
    ),
    expression('"cuda:0" in map(str, [x.device])', '"cuda:0" in map(str, [x.device])'),
    expression('"cuda:0" in list(map(str, [x.device]))', '"cuda:0" in list(map(str, [x.device]))'),
    expression(
        'list(map(str, [x.device])) == ["cuda:0"]', 'list(map(str, [x.device])) == ["cuda:0"]'
    ),
    expression(
        'set(map(str, [x.device])) == {"cuda:0"}', 'set(map(str, [x.device])) == {"cuda:0"}'
    ),
    expression(
        'any(s.startswith("cuda") for s in map(str, [x.device]))',
        'any(s.startswith("cuda") for s in map(str, [x.device]))',
    ),
    expression(
        '"cuda" in {t.device.type: t for t in [x]}', '"cuda" in {t.device.type: t for t in [x]}'
    ),
    expression(
        '"cuda" in list(map(lambda t: t.device.type, [x]))',
        '"cuda" in list(map(lambda t: t.device.type, [x]))',
    ),
    expression(
        '",".join(map(str, [x.device, x.device])) == "cuda:0,cuda:0"',
        '",".join(map(str, [x.device, x.device])) == "cuda:0,cuda:0"',
    ),
    expression(
        '"cuda" in ",".join(str(t.device) for t in [x])',
        '"cuda" in ",".join(str(t.device) for t in [x])',
    ),
    expression(
        '"-".join(["on", x.device.type]) == "on-cuda"',
        '"-".join(["on", x.device.type]) == "on-cuda"',
    ),
    expression(
        '[t.device.type for t in [x]] == ["cuda"]', '[t.device.type for t in [x]] == ["cuda"]'
    ),
    expression(
        '{"cuda"} & {t.device.type for t in [x]} == {"cuda"}',
        '{"cuda"} & {t.device.type for t in [x]} == {"cuda"}',
        lines=(2, 2),
    ),
    expression(
        'bool({"cuda", "xpu"} & {t.device.type for t in [x]})',
        'bool({"cuda", "xpu"} & {t.device.type for t in [x]})',
    ),
    expression(
        'bool({"cuda", "xpu"}.intersection(t.device.type for t in [x]))',
        'bool({"cuda", "xpu"}.intersection(t.device.type for t in [x]))',
    ),
    expression(
        '{"cuda"}.issubset({t.device.type for t in [x]})',
        '{"cuda"}.issubset({t.device.type for t in [x]})',
    ),
    expression(
        '{t.device.type for t in [x]}.issubset({"cuda", "mps"})',
        '{t.device.type for t in [x]}.issubset({"cuda", "mps"})',
    ),
    expression(
        '{t.device.type for t in [x]}.isdisjoint({"cuda"})',
        '{t.device.type for t in [x]}.isdisjoint({"cuda"})',
    ),
    expression(
        '{t.device.type for t in [x]} - {"cuda"}', '{t.device.type for t in [x]} - {"cuda"}'
    ),
    expression(
        '{t.device.type: 1 for t in [x]}.get("cuda")', '{t.device.type: 1 for t in [x]}.get("cuda")'
    ),
    expression(
        '{t.device.type: 1 for t in [x]}["cuda"]', '{t.device.type: 1 for t in [x]}["cuda"]'
    ),
    expression(
        '{str(t.device): 1 for t in [x]}.get("cuda:0", 0)',
        '{str(t.device): 1 for t in [x]}.get("cuda:0", 0)',
    ),
    expression('dict([(x.device.type, 1)]).get("cuda")', 'dict([(x.device.type, 1)]).get("cuda")'),
    expression(
        '"cuda" in dict.fromkeys([x.device.type])', '"cuda" in dict.fromkeys([x.device.type])'
    ),
    expression(
        'sorted([x.device.type, "cpu"]) == ["cpu", "cuda"]',
        'sorted([x.device.type, "cpu"]) == ["cpu", "cuda"]',
    ),
    expression(
        'sorted([x.device.type, "cpu"], key=["cuda", "cpu"].index)[0] == x.device.type',
        'sorted([x.device.type, "cpu"], key=["cuda", "cpu"].index)[0] == x.device.type',
        lines=(2, 2),
    ),
    expression('["cpu", "cuda"].index(x.device.type)', '["cpu", "cuda"].index(x.device.type)'),
    expression('("cpu", "cuda").index(x.device.type)', '("cpu", "cuda").index(x.device.type)'),
    expression(
        'x.device.type.removeprefix("cu") == "da"',
        'x.device.type.removeprefix("cu") == "da"',
        lines=(2, 2),
    ),
    expression('x.device.type[:2] == "cu"', 'x.device.type[:2] == "cu"'),
    expression('x.device.type.upper() == "CUDA"', 'x.device.type.upper() == "CUDA"'),
    expression(
        'str(x.device).upper().startswith("CUDA")', 'str(x.device).upper().startswith("CUDA")'
    ),
    expression('"CUDA" in str(x.device).upper()', '"CUDA" in str(x.device).upper()'),
    expression('x.device.type.title() == "Cuda"', 'x.device.type.title() == "Cuda"'),
    expression('x.device.type.capitalize() == "Cuda"', 'x.device.type.capitalize() == "Cuda"'),
    expression('x.device.type.encode() == b"cuda"', 'x.device.type.encode() == b"cuda"'),
    expression('"cuda".__eq__(x.device.type)', '"cuda".__eq__(x.device.type)'),
    expression('"cuda".__contains__(x.device.type)', '"cuda".__contains__(x.device.type)'),
    expression('"cuda".startswith(x.device.type)', '"cuda".startswith(x.device.type)'),
    expression('"cuda:0".startswith(x.device.type)', '"cuda:0".startswith(x.device.type)'),
    expression(
        '(x.device.type, x.device.index) in [("cuda", 0)]',
        '(x.device.type, x.device.index) in [("cuda", 0)]',
    ),
    expression(
        '{("cuda", 0): 1}.get((x.device.type, x.device.index))',
        '{("cuda", 0): 1}.get((x.device.type, x.device.index))',
    ),
    expression('x.device.__str__() == "cuda:0"', 'x.device.__str__() == "cuda:0"'),
    expression('x.device.type in [*("cuda",), "mps"]', 'x.device.type in [*("cuda",), "mps"]'),
]
