"""OpenAI's strict mode: a schema in the subset that the provider holds its model to, and the way there and back.

There every key is required, no object is open, and the root is an object. So:

    an optional key             may be null, and null is dropped on the way back
    one that may be null too    is null or {"value": ...}, unless null is its default anyway
    a record                    is a list of {"key": ..., "value": ...}
    keys beyond the named ones  are such a list, under a key of its own
    anything at all             is a text that holds JSON
    a tuple of unlike places    is an object with the keys "0", "1", ...
    a root that is no object    is under the key "input"

Where two branches of a union could be taken for each other, one of them is put into an object with one key.
"""

from __future__ import annotations

from typing import Any

from fairlead.schema.dialects.dialect import OPENAI, Names, enumerated, kept
from fairlead.schema.dialects.nodes import Node, Nodes
from fairlead.schema.dialects.roots import ROOT
from fairlead.schema.fits import Fit, resolve
from fairlead.surfaces.llm import forms
from fairlead.surfaces.llm.forms import Fits, Form
from fairlead.surfaces.llm.lookalikes import Lookalikes, alike, extra_key


class Strict:
    """A whole schema in strict words."""

    def __init__(self, nodes: Nodes) -> None:
        compiler = _Compiler(nodes)
        form = compiler.root()
        self._declared = nodes.root
        self._form = form if form.schema.get("type") == "object" else forms.tagged(form, ROOT)
        self.schema = {**self._form.schema, **compiler.definitions()}

    def encode(self, value: Any) -> Any:
        """The arguments that stand for an input; as it is where it does not fit the schema."""
        return self._form.encoded(value, self._fits())

    def decode(self, arguments: Any) -> Any:
        """The input that arguments stand for.

        Raises:
            Failure: a key is given twice where keys and values are listed.
        """
        return self._form.decoded(arguments, self._fits())

    def _fits(self) -> Fits:
        return Fits(Fit(self._declared), Fit(self.schema))


class _Compiler:
    """Finds each shape its form."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._looks = Lookalikes(nodes)
        self._names = Names()
        self._definitions: dict[str, Form] = {}

    def definitions(self) -> dict[str, Any]:
        """`$defs` for what was referred to, which may refer to more."""
        while unsaid := [(ref, name) for ref, name in self._names if name not in self._definitions]:
            for ref, name in unsaid:
                self._definitions[name] = self._form(resolve(ref, self._nodes.root))
        told = {name: form.schema for name, form in self._definitions.items()}
        return {"$defs": told} if told else {}

    def root(self) -> Form:
        """The form of the whole."""
        form = self._made(self._nodes.target(self._nodes.root))
        return Form(form.schema) if self._looks.is_plain(self._nodes.root) else form

    def _form(self, schema: Any) -> Form:
        """The form of a schema; values that stay as they are cost nothing later."""
        form = self._made(self._nodes.node(schema))
        return Form(form.schema) if self._looks.is_plain(schema) else form

    def _made(self, node: Node) -> Form:
        stated = kept(node.schema, OPENAI)
        if node.kind == "enum":
            return Form(enumerated(node.values, stated, OPENAI))
        if node.kind == "scalar":
            return Form({"type": node.type, **stated})
        if node.kind == "any":
            what = "an object, as JSON text" if "type" in node.schema else "any value, as JSON text"
            return forms.text().saying(kept(node.schema, OPENAI, what))
        if node.kind == "ref":
            return self._reference(node, stated)
        if node.kind == "union":
            return self._union(node).saying(stated)
        if node.kind == "array":
            return forms.each(self._form(node.items)).saying(stated)
        if node.kind == "tuple":
            return self._tuple(node, stated)
        if node.kind == "record":
            stated = kept(node.schema, OPENAI, "a list of keys and their values")
            return self._pairs(node.keys, node.items).saying(stated)
        return self._object(node).saying(stated)

    def _reference(self, node: Node, stated: dict[str, Any]) -> Form:
        name = self._names[node.schema["$ref"]]
        told: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
        known = self._definitions
        return Form(
            {"anyOf": [told], **stated} if stated else told,
            lambda value, fits: known[name].encoded(value, fits),
            lambda value, fits: known[name].decoded(value, fits),
        )

    def _union(self, node: Node) -> Form:
        found = []
        for schema, tag in self._looks.branches(node):
            form = self._form(schema)
            found.append((schema, form if tag is None else forms.tagged(form, tag)))
        return forms.union(found)

    def _tuple(self, node: Node, stated: dict[str, Any]) -> Form:
        count = len(node.parts)
        if alike(node):
            return forms.each(self._form(node.parts[0])).saying(
                {**stated, "minItems": count, "maxItems": count}
            )
        limits = ("minItems", "maxItems")
        stated = {key: value for key, value in stated.items() if key not in limits}
        return forms.places([self._form(part) for part in node.parts]).saying(stated)

    def _pairs(self, keys: Any, items: Any) -> Form:
        key = self._form(keys).schema if self._nodes.target(keys).kind in ("enum", "scalar") else {}
        return forms.pairs(key if key.get("type") == "string" else {"type": "string"}, self._form(items))

    def _object(self, node: Node) -> Form:
        found = {name: self._field(name, schema, node) for name, schema in node.properties.items()}
        more = self._pairs(True, node.items) if node.is_open else None
        return forms.fields(found, node.required, extra_key(node), more)

    def _field(self, name: str, schema: Any, node: Node) -> Form:
        """A property's form, which stands for its absence too where it is optional."""
        form = self._form(schema)
        if name in node.required:
            return form
        if not self._looks.takes_null(schema):
            return forms.optional(form)
        same_as_null = isinstance(schema, dict) and "default" in schema and schema["default"] is None
        return forms.defaulting(form) if same_as_null else forms.held(form)
