"""Python programs by grammar: every statement in every place, of Python 3.10 to 3.14, with torch's CUDA names among the names."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

#: What rules look for, among names that mean nothing.
_CUDA = (
    "torch.cuda", "torch.cuda.is_available()", "torch.cuda.synchronize()", "torch.device('cuda')", 'torch.device("cuda:0")',
    "x.cuda()", "x.to('cuda')", 'x.to("cuda", non_blocking=True)', "model.cuda()", "torch.zeros(2, device='cuda')",
    "torch.cuda.amp.autocast()", "torch.cuda.amp.GradScaler()", "torch.autocast('cuda', dtype=torch.float16)", "'cuda'",
    'f"cuda:{rank}"', "x.is_cuda", "x.device.type == 'cuda'", "torch.cuda.device_count()", "torch.cuda.Stream()",
    "torch.cuda.FloatTensor(2)", "torch.backends.cudnn.benchmark", "os.environ['CUDA_VISIBLE_DEVICES']",
    "torch.cuda.empty_cache()", "torch.cuda.max_memory_allocated()", "torch.cuda.manual_seed_all(1)", "loss.item()",
    "dist.init_process_group('nccl')", "scaler.scale(loss).backward()", "scaler.step(optimizer)", "scaler.update()",
    "optimizer.step()", "loss.backward()", "x.half()", "torch.cuda.nvtx.range_push('a')", "pin_memory=True",
)  # fmt: skip
_CALLS = tuple(text for text in _CUDA if "=" not in text.split("(")[0])
_NAMES = (
    "x",
    "y",
    "model",
    "device",
    "loss",
    "scaler",
    "optimizer",
    "rank",
    "torch",
    "self",
    "a_b",
    "é",
    "_",
)
_IMPORTS = (
    "import torch", "import torch, os", "import torch as t", "import torch.cuda", "import torch.cuda as tc", "from torch import cuda",
    "from torch.cuda import amp", "from torch.cuda.amp import autocast, GradScaler", "from torch.cuda.amp import (autocast as ac,\n    GradScaler)",
    "import os; import torch", "from torch import *", "import torch.distributed as dist", "from . import x", "import torch \\\n  , sys",
)  # fmt: skip


class Grammar:
    """One program: ``version`` is the newest syntax that it may use (its minor number), ``needs`` the one that it used."""

    def __init__(self, choose: random.Random, version: int = 11) -> None:
        self.choose = choose
        self.version = version
        self.needs = 10
        self._unit = choose.choice(("    ", "  ", "\t", " ", "        "))
        self._left = choose.choice((1, 3, 6, 12, 30))
        self._async = self._loop = self._function = self._comprehends = False

    def program(self) -> str:
        lines = ["import torch"] if self.choose.random() < 0.7 else []
        while self._left > 0:
            lines += self._statement(0)
        return "\n".join(lines) + self.choose.choice(("\n", "\n", "\n", "", "\n\n"))

    # -- statements --------------------------------------------------------------------------

    def _statement(self, depth: int) -> list[str]:
        self._left -= 1
        pick = self.choose.random()
        if pick < 0.45 or depth > 5:
            line = self._simple()
            while self.choose.random() < 0.08:
                line += self.choose.choice(("; ", ";", " ;  ")) + self._simple()
            return (line + self.choose.choice(("", "", "", "", ";", "  "))).split("\n")
        return self.choose.choice(_COMPOUND)(self, depth)

    def _block(self, depth: int) -> list[str]:
        if self.choose.random() < 0.1:
            return []
        found: list[str] = []
        for _ in range(self.choose.choice((1, 1, 2, 3))):
            found += self._statement(depth + 1)
        return [self._unit + line for line in found]

    def _suite(self, head: str, depth: int) -> list[str]:
        """A header with its block, or with a statement on its line."""
        body = self._block(depth)
        return [f"{head}:", *body] if body else f"{head}: {self._simple()}".split("\n")

    def _if(self, depth: int) -> list[str]:
        lines = self._suite(f"if {self._expression()}", depth)
        while self.choose.random() < 0.3:
            lines += self._suite(f"elif {self._expression()}", depth)
        return lines + (self._suite("else", depth) if self.choose.random() < 0.5 else [])

    def _for(self, depth: int) -> list[str]:
        head = f"for {self._target()} in {self._list()}"
        return self._looping(head, depth)

    def _while(self, depth: int) -> list[str]:
        return self._looping(f"while {self._named()}", depth)

    def _looping(self, head: str, depth: int) -> list[str]:
        before, self._loop = self._loop, True
        if self._async and head.startswith("for") and self.choose.random() < 0.3:
            head = "async " + head
        lines = self._suite(head, depth)
        self._loop = before
        return lines + (self._suite("else", depth) if self.choose.random() < 0.15 else [])

    def _try(self, depth: int) -> list[str]:
        lines = self._suite("try", depth)
        star = self.version >= 11 and self.choose.random() < 0.15
        if star:
            self.needs = max(self.needs, 11)
        count = self.choose.choice((0, 1, 1, 2))
        for number in range(count):
            kind = self.choose.choice(
                (
                    "ValueError",
                    "(ValueError, OSError)",
                    "Exception as e",
                    "torch.cuda.OutOfMemoryError",
                )
            )
            if self.version >= 14 and self.choose.random() < 0.4:
                self.needs, kind = 14, "ValueError, OSError"
            if not star and number == count - 1 and self.choose.random() < 0.3:
                kind = ""
            before = self._loop
            self._loop = self._loop and not star
            held, self._function = self._function, self._function and not star
            lines += self._suite(f"except{'*' if star else ''} {kind}".rstrip(), depth)
            self._loop, self._function = before, held
        if count and self.choose.random() < 0.2:
            lines += self._suite("else", depth)
        if not count or self.choose.random() < 0.3:
            before, self._loop = self._loop, self._loop and self.version < 14  # PEP 765 warns
            lines += self._suite("finally", depth)
            self._loop = before
        return lines

    def _with(self, depth: int) -> list[str]:
        items = [self._item() for _ in range(self.choose.choice((1, 1, 2)))]
        word = "async with" if self._async and self.choose.random() < 0.3 else "with"
        joint = self.choose.choice((", ", ",\n    "))
        inside = joint.join(items)
        if "\n" in joint or self.choose.random() < 0.3:
            inside = f"({inside}{self.choose.choice(('', ','))})"
        head = f"{word} {inside}".split("\n")
        suite = self._suite(head[-1], depth)
        return [*head[:-1], *suite]

    def _item(self) -> str:
        text = self._atom() if self.choose.random() < 0.5 else self.choose.choice(_CALLS)
        return text + (f" as {self.choose.choice(_NAMES)}" if self.choose.random() < 0.3 else "")

    def _def(self, depth: int) -> list[str]:
        held = self._async, self._loop, self._function
        self._async, self._loop, self._function = self.choose.random() < 0.2, False, True
        lines = self._decorators()
        head = f"{'async ' if self._async else ''}def f{self._types()}({self._parameters()})"
        if self.choose.random() < 0.2:
            head += f" -> {self._atom()}"
        lines += self._suite(head, depth)
        self._async, self._loop, self._function = held
        return lines

    def _class(self, depth: int) -> list[str]:
        held = self._async, self._loop, self._function
        self._async = self._loop = self._function = False
        bases = self.choose.choice(("", "", "()", "(torch.nn.Module)", "(A, metaclass=B)"))
        lines = [*self._decorators(), *self._suite(f"class C{self._types()}{bases}", depth)]
        self._async, self._loop, self._function = held
        return lines

    def _match(self, depth: int) -> list[str]:
        lines = [f"match {self._list()}:"]
        for _ in range(self.choose.choice((1, 2, 3))):
            head = f"case {self._pattern()}" + (
                f" if {self._named()}" if self.choose.random() < 0.3 else ""
            )
            lines += [self._unit + line for line in self._suite(head, depth + 1)]
        return lines

    def _decorators(self) -> list[str]:
        found: list[str] = []
        while self.choose.random() < 0.2:
            found.append(f"@{self.choose.choice(('torch.no_grad()', 'torch.cuda.amp.autocast()', 'a.b', 'x[0]', 'property', 'torch.jit.script'))}")  # fmt: skip
        return found

    def _types(self) -> str:
        if self.version < 12 or self.choose.random() < 0.6:
            return ""
        self.needs = max(self.needs, 12)
        if self.version >= 13 and self.choose.random() < 0.3:
            self.needs = max(self.needs, 13)
            return "[T = int, *Ts = *tuple[int], **P = [int]]"
        return self.choose.choice(("[T]", "[T: int, *Ts, **P]", "[T: (int, str)]"))

    def _parameters(self) -> str:
        return self.choose.choice(
            ("", "x", "self, x", "x, /, y", "*, device", "*a, **k", "x: int = 0, *, device='cuda'", "x, /, y=1, *a, z: str, **k",
             "device=torch.device('cuda')", "x,\n    y,\n", "self", "cuda=True", f"x={self._atom()}", "*a: int")
        )  # fmt: skip

    # -- statements of one line ----------------------------------------------------------------

    def _simple(self) -> str:
        return self.choose.choice(_SIMPLE)(self)

    def _assign(self) -> str:
        targets = "".join(f"{self._target()} = " for _ in range(self.choose.choice((1, 1, 1, 2))))
        return targets + self._list()

    def _augmented(self) -> str:
        return f"{self.choose.choice(('x', 'x.a', 'x[0]'))} {self.choose.choice(('+=', '@=', '//=', '>>=', '|='))} {self._list()}"

    def _annotated(self) -> str:
        target = self.choose.choice(
            ("x", "self.x", "x[0]")
        )  # libcst cannot parse `(x): int`, which is told
        return f"{target}: {self._atom()}" + (
            f" = {self._list()}" if self.choose.random() < 0.6 else ""
        )

    def _flow(self) -> str:
        found = ["pass", "raise", f"raise {self._atom()} from {self._atom()}", f"assert {self._expression()}, {self._expression()}", "..."]  # fmt: skip
        if self._loop:
            found += ["break", "continue"]
        if self._function:
            found += ["return", f"return {self._list() if not self._async else self._expression()}"]
        return self.choose.choice(found)

    def _binding(self) -> str:
        found = [
            f"del {self.choose.choice(('x', 'x.a, y', 'x[0]', '(x, y)'))}",
            self.choose.choice(_IMPORTS),
        ]
        if self._function:
            found[1] = found[1].replace("from torch import *", "import torch")
        else:
            return self.choose.choice([text for text in found if "*" not in text])
        return self.choose.choice([text for text in found if "*" not in text])

    def _type_alias(self) -> str:
        if self.version < 12:
            return self._assign()
        self.needs = max(self.needs, 12)
        return self.choose.choice(
            (
                "type X = int",
                "type X[T] = list[T]",
                f"type X = {self._atom()}",
                "type = 1",
                "type(x)",
            )
        )

    def _star(self) -> str:
        return f"{self._target()} = *{self._atom()}, {self._expression()}"

    # -- expressions -----------------------------------------------------------------------------

    def _target(self) -> str:
        return self.choose.choice(
            ("x", "y", "device", "model", "self.x", "x[0]", "x, y", "(x, y)", "[x, *y]", "x, (y, z)", "x.a.b", "x[1:2, ...]", "loss", "scaler")
        )  # fmt: skip

    def _list(self) -> str:
        """What may stand on the right: with commas, `yield` and all."""
        pick = self.choose.random()
        if pick < 0.12:
            return f"{self._expression()}, {self._expression()}"
        if pick < 0.16 and self._function:
            return self.choose.choice(("(yield)", f"(yield {self._expression()})"))
        return self._expression()

    def _named(self) -> str:
        return f"(n := {self._expression()})" if self.choose.random() < 0.15 else self._expression()

    def _expression(self, depth: int = 0) -> str:
        if depth > 3 or self.choose.random() < 0.35:
            return self._atom()
        return self.choose.choice(_EXPRESSIONS)(self, depth + 1)

    def _atom(self) -> str:
        pick = self.choose.random()
        if pick < 0.4:
            return self.choose.choice(_CALLS)
        if pick < 0.65:
            return self.choose.choice(_NAMES)
        return self.choose.choice(
            ("1", "-1.5e3", "0x_ff", "1j", "None", "True", "...", "'a'", 'b"c"', "r'\\d'", "'''a\nb'''", '"a" \'cuda\'', "()", "[]", "{}",
             "rb'x'", "'\\N{BULLET}'", "u'cuda'", "'é'")
        ) if pick < 0.93 else self._fstring()  # fmt: skip

    def _fstring(self) -> str:
        name = self.choose.choice(_NAMES[:4])
        plain = (f"f'{{{name}}}'", f"f\"{{{name}!r:>{{w}}}}\"", f"f'{{{name}=}}'", f"f'''{{\n{name}}}'''", "f'{{}}'", f"f'cuda:{{{name}}}'", f"rf'\\d{{{name}}}'")  # fmt: skip
        if self.version >= 14 and self.choose.random() < 0.3:
            self.needs = 14
            return self.choose.choice((f"t'{{{name}}}'", f"rt'cuda:{{{name}}}'"))
        if self.version >= 12 and self.choose.random() < 0.5:
            self.needs = max(self.needs, 12)
            return self.choose.choice(
                (f"f'{{'cuda'}}:{{{name}}}'", f"f'{{f'{{f'{{{name}}}'}}'}}'", f"f'{{{name}[\"a\"]}}{{'\\n'}}'", "f'{x.to('cuda')}'", "f'{x  # c\n}'",
                 "f\"{torch.device('cuda' if x else \"cpu\")}\"")
            )  # fmt: skip
        return self.choose.choice(plain)

    def _binary(self, depth: int) -> str:
        operator = self.choose.choice(("+", "-", "*", "@", "/", "//", "%", "<<", "&", "|", "^", "**", "and", "or", "==", "!=", "<", "is", "is not", "in", "not in"))  # fmt: skip
        return f"{self._inner(depth)} {operator} {self._inner(depth)}"

    def _inner(self, depth: int) -> str:
        text = self._expression(depth)
        return text if self.choose.random() < 0.3 and text.isidentifier() else f"({text})"

    def _unary(self, depth: int) -> str:
        return self.choose.choice(
            ("not ", "-", "~", "+", "await " if self._async else "not ")
        ) + self._inner(depth)

    def _ternary(self, depth: int) -> str:
        return f"{self._inner(depth)} if {self._inner(depth)} else {self._inner(depth)}"

    def _call(self, depth: int) -> str:
        arguments = [self._argument(depth) for _ in range(self.choose.choice((0, 1, 2, 3)))]
        keywords = [text for text in arguments if text.startswith("**") or ("=" in text and text.split("=")[0].isidentifier())]  # fmt: skip
        ordered = [text for text in arguments if text not in keywords] + list(
            dict.fromkeys(keywords)
        )
        seen: set[str] = set()
        kept = []
        for text in ordered:
            name = text.split("=")[0] if text in keywords and not text.startswith("**") else ""
            if name and name in seen:
                continue
            seen.add(name)
            kept.append(text)
        kept.sort(key=lambda text: text.startswith("**"))
        joint = self.choose.choice((", ", ",", ",\n    ", ", \\\n  "))
        end = self.choose.choice(("", "", "," if kept else "", "\n" if "\n    " in joint else ""))
        function = self.choose.choice(
            (
                "f",
                "torch.zeros",
                "x.to",
                "model",
                "x.a.b",
                "torch.device",
                "torch.autocast",
                "DDP",
                "(f)",
            )
        )
        return f"{function}({joint.join(kept)}{end})"

    def _argument(self, depth: int) -> str:
        return self.choose.choice(
            (self._inner(depth), "*" + self._atom(), "**k", f"device={self._inner(depth)}", f"enabled={self._atom()}", f"a={self._inner(depth)}", "dtype=torch.float16")
        )  # fmt: skip

    def _subscript(self, depth: int) -> str:
        inside = self.choose.choice(
            ("0", "1:", "::2", ":, 0", "...", self._inner(depth), f"{self._inner(depth)}, 1:2")
        )
        return f"{self.choose.choice(_NAMES[:6])}[{inside}]"

    def _attribute(self, depth: int) -> str:
        # Not of a number: `255 .is_cuda` has no tensor.
        held = self._expression(depth)
        held = "x" if held.strip("-")[0].isdigit() else held
        return f"({held}).{self.choose.choice(('a', 'cuda', 'device', 'type', 'is_cuda', 'to'))}"

    def _lambda(self, depth: int) -> str:
        parameters = self.choose.choice(("", " x", " *a, **k", " x, device='cuda'", " x, /, y"))
        held, self._async = self._async, False
        text = f"(lambda{parameters}: {self._expression(depth)})"
        self._async = held
        return text

    def _collection(self, depth: int) -> str:
        one, two = self._inner(depth), self._inner(depth)
        return self.choose.choice(
            (f"[{one}, *{two}]", f"({one},)", f"{{{one}: {two}, **{{}}}}", f"{{{one}, {two}}}", f"[\n    {one},\n    {two},\n]", f"[{one}  ,{two}\t]")
        )  # fmt: skip

    def _comprehension(self, depth: int) -> str:
        held, self._async, self._comprehends = (self._async, self._comprehends), False, True
        tail = f"for i in {self._inner(depth)}" + self.choose.choice(
            ("", f" if {self._inner(depth)}", " for j, k in i")
        )
        one = self._inner(depth)
        self._async, self._comprehends = held
        return self.choose.choice(
            (
                f"[{one} {tail}]",
                f"{{{one} {tail}}}",
                f"{{{one}: i {tail}}}",
                f"({one} {tail})",
                f"sum({one} {tail})",
            )
        )

    def _walrus(self, depth: int) -> str:
        return f"[n := {self._inner(depth)}]" if not self._comprehends else self._atom()

    def _pattern(self) -> str:
        return self.choose.choice(
            ("_", "'cuda'", "'cuda' | 'cpu'", "[x, *_]", "{'device': 'cuda', **rest}", "torch.device(type='cuda')", "C(1, a=x)", "None", "-1", "1+2j",
             "x.y", "(x, y)", "[1, 2] as z", "str() as s", "('a' | 'b') as q", "torch.cuda")
        )  # fmt: skip


class Known(Grammar):
    """A program of what rules know by name, its values handed on in circles: few names, each given by several others, in loops and functions."""

    def __init__(
        self, choose: random.Random, version: int, words: Mapping[str, Sequence[str]]
    ) -> None:
        super().__init__(choose, version)
        self._words = words
        self._left = choose.choice((2, 4, 8, 12))
        self._few = choose.sample(_FEW, choose.choice((2, 3, 5)))

    def program(self) -> str:
        lines = [
            "import torch",
            *(f"import {self._word('imports')}" for _ in range(self.choose.randrange(3))),
        ]
        return "\n".join(lines) + "\n" + super().program()

    def _word(self, kind: str) -> str:
        return self.choose.choice(self._words[kind])

    def _simple(self) -> str:
        return (
            self._filled(self.choose.choice(_HANDED_ON))
            if self.choose.random() < 0.8
            else super()._simple()
        )

    def _atom(self) -> str:
        pick = self.choose.random()
        if pick < 0.5:
            return self.choose.choice(self._few)
        return self._filled(self.choose.choice(_KNOWN)) if pick < 0.9 else super()._atom()

    def _filled(self, form: str) -> str:
        for kind in ("names", "calls", "attributes", "keywords", "strings"):
            while f"<{kind}>" in form:
                form = form.replace(f"<{kind}>", self._word(kind), 1)
        while "$" in form:
            form = form.replace("$", self.choose.choice(self._few), 1)
        return form


_FEW = (
    "x",
    "y",
    "model",
    "state",
    "batch",
    "loss",
    "optimizer",
    "loader",
    "device",
    "args",
    "self.x",
    "self.model",
    "f",
    "x['a']",
    "C",
)
_KNOWN = (
    "<names>", "<names>($)", "<names>($, $)", "<names>($, <keywords>=$)", "$.<calls>()", "$.<calls>($)", "$.<attributes>", "'<strings>'", "$($)",
    "$[$]", "$['a']", "f($)", "C($)", "$.parameters()", "$.state_dict()", "torch.load($)", "next($)", "($ or $)", "($ if $ else $)", "[$ for x in []]",
    "getattr($, '<attributes>')", "len($)", "$.shape[0]", "torch.cat([$, $])", "($ > 0)", "{'a': $, **{}}", "(lambda: $)()", "map(f, $)",
)  # fmt: skip
_HANDED_ON = (
    "$ = $", "$, y = y, $", "$ = $.cuda()", "$ = $.to($)", "$ = $[$]", "$ = torch.load($)", "$ = torch.load($, map_location='cuda')", "$ = $.<calls>($)",
    "$ = <names>($)", "$ = <names>", "$ = $.<attributes>", "$ = f($)", "$ = C($)", "$ = $($)", "$.load_state_dict($)", "torch.save($, $)", "$ += $",
    "$.<calls>($)", "$.<calls>(<keywords>=$)", "<names>($)", "<names>", "$.<attributes> = $", "$ = dict(<keywords>=$)", "$ = next(iter($))", "del x",
    "$ = [$, $]", "$ = {'a': $}", "$ = $ or $", "$ = $ if $ else $", "$ = torch.device($)", "$ = '<strings>'", "$ = lambda x: $", "$.append($)",
    "$ = torch.cat([$, $])", "$ = $[$ > 0]", "$ = $.view(-1, $)", "$.backward()", "$.step()", "$ = getattr($, '<attributes>', $)", "$ = $.item()",
    "parser.add_argument('--<attributes>', default=$)", "f = torch.compile($)", "assert $ == '<strings>'",
)  # fmt: skip
_COMPOUND: tuple[Callable[[Grammar, int], list[str]], ...] = (
    Grammar._if, Grammar._if, Grammar._for, Grammar._while, Grammar._try, Grammar._with, Grammar._with, Grammar._def, Grammar._def,
    Grammar._class, Grammar._match,
)  # fmt: skip
_SIMPLE: tuple[Callable[[Grammar], str], ...] = (
    Grammar._assign, Grammar._assign, Grammar._list, Grammar._list, Grammar._augmented, Grammar._annotated, Grammar._flow, Grammar._binding,
    Grammar._type_alias, Grammar._star,
)  # fmt: skip
_EXPRESSIONS: tuple[Callable[[Grammar, int], str], ...] = (
    Grammar._binary, Grammar._unary, Grammar._ternary, Grammar._call, Grammar._call, Grammar._subscript, Grammar._attribute, Grammar._lambda,
    Grammar._collection, Grammar._comprehension, Grammar._walrus,
)  # fmt: skip
