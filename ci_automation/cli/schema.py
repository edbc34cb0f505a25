"""The command `schema`, and the forms of everything that `--output json` prints; `print_json` adds their names."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from ci_automation.cli.output import print_json
from ci_automation.cli.parameters import HeadedCommand, details_option

Schema = dict[str, Any]


def _form(description: str = "", texts: str = "", /, **keys: Schema) -> Schema:
    """Return an object with these keys, of which `texts` names those with a text; name_ is not always there."""
    keys = {**dict.fromkeys(texts.split(), _TEXT), **keys}
    found = {name.removesuffix("_"): schema for name, schema in keys.items()}
    required = [name for name in keys if not name.endswith("_")]
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "properties": found,
        "required": required,
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_TEXT = {"type": "string"}
_TEXTS = _list(_TEXT)
_TEXT_OR_NULL = {"type": ["string", "null"]}
_FLAG = {"type": "boolean"}
_NUMBER = {"type": "integer"}
_OBJECT = {"type": "object"}  # whose keys are those of flags, of a record or of a form elsewhere
_OBJECTS = _list(_OBJECT)


def _listed(part: str) -> Schema:
    """Return a list of parts, each of which a class of the program describes: `_parts`."""
    return _list({"$ref": f"#/$defs/{part}"})


_AT = _form("", "version digest")
_MOVE = {"from": _AT, "to": _AT}
_FINDINGS = {"changes": _listed("Change"), "hazards": _listed("Hazard"), "pruned": _TEXTS}
_MOVED = "One move of a channel: from one version and base digest to another version and the target digest."
_BRIEF: dict[str, Schema] = {"from": _TEXT, "reasons": _TEXTS}
_STEPS = _list(
    _form(
        _MOVED,
        "to kind base target decision overlay release proof",
        **_BRIEF,
        options=_OBJECT,
        pinned=_FLAG,
        changes=_form(
            images=_listed("ImageChange"),
            added=_TEXTS,
            removed=_TEXTS,
            all=_listed("Change"),
            diffs=_listed("FileDiff"),
        ),
        hazards=_listed("Hazard"),
        pruned=_TEXTS,
        gates=_listed("Verdict"),
        rights=_listed("FolderRights"),
    )
)
_STEPS_IN_BRIEF = _list(
    _form(f"{_MOVED} The plan has all of it, by its target.", "to kind base target decision", **_BRIEF)
)
_HOLD = _form("", "reason at", refused=_AT, digestAlone=_FLAG, until=_TEXT_OR_NULL)
_STORED: dict[str, Schema] = {"tag": _TEXT, "version": _TEXT, "digest": _TEXT, "lastOnAChannel": _TEXT_OR_NULL}
_TROUBLE = {"code": _TEXT, "message": _TEXT, "hint": _TEXT}
_NOTES = _list(_form("", "version text", mayBreak=_TEXTS))
_ENTRY = {"name": _TEXT, "artifact": _TEXT, "exitCode": _NUMBER}
_FAILED = _form(**_ENTRY, error=_form(**_TROUBLE))


def _entries(**keys: Schema) -> Schema:
    """Return a list whose entries are whole, or have an error."""
    return _list({"anyOf": [_form(**_ENTRY, **keys), _FAILED]})


_PROMOTIONS = _entries(
    **_MOVE,
    **_FINDINGS,
    source=_TEXT,
    decision=_TEXT,
    reasons=_TEXTS,
    changed=_FLAG,
    releaseNotes=_NOTES,
    gates=_listed("Verdict"),
)

FORMS: dict[str, Schema] = {
    "error": _form("An error that ended the run, of any command.", error=_form(**_TROUBLE, exitCode=_NUMBER)),
    "results": _form(
        "What `check`, `plan`, `update` and `apply` found and did, artifact by artifact; promoted channels apart.",
        exitCode=_NUMBER,
        artifacts=_entries(
            changed=_FLAG,
            version=_TEXT,
            digest=_TEXT,
            signature=_TEXT,
            healed=_FLAG,
            movedBackChecked=_FLAG,
            versionTagsAstray=_TEXTS,
            published=_STEPS_IN_BRIEF,
            waiting=_STEPS_IN_BRIEF,
            plan=_form(
                "",
                "artifact digest",
                schema={"const": "flux-manifests.plan/v1"},
                current=_form("", "version digest", since=_TEXT_OR_NULL),
                steps=_STEPS,
                passedOver=_list(_form("", "version decision", reasons=_TEXTS)),
            ),
            vulnerabilities=_OBJECTS,
            releaseNotes=_NOTES,
        ),
        promotions=_PROMOTIONS,
    ),
    "promotions": _form(
        "What `promote` found and did, channel by channel.",
        exitCode=_NUMBER,
        promotions=_PROMOTIONS,
    ),
    "verify": _form(
        "Who signed an artifact, and which clusters accept it.",
        "artifact digest by",
        version=_TEXT_OR_NULL,
        verified=_FLAG,
        unprovenRendering=_FLAG,
        clusters=_list(_form("", "flux reason", accepts=_FLAG)),
        rederived_=_OBJECT,
    ),
    "history": _form(
        "Each digest that an immutable tag or a channel names, the newest first.",
        entries=_list(
            _form(
                "",
                "version tag digest signed origin",
                rows=_list(_NUMBER),
                channels=_TEXTS,
                versionTags=_TEXTS,
                records=_OBJECTS,
                holds=_OBJECTS,
            )
        ),
    ),
    "render": _form(
        "A rendered release, and what proves the rendering.",
        "version proof proofDetail components",
        options=_OBJECT,
        proven=_FLAG,
    ),
    "init": _form(
        "The first artifact of a channel.",
        "artifact version digest components proof",
        published=_FLAG,
        signed=_FLAG,
        files=_TEXTS,
        options=_OBJECT,
        changes=_listed("Change"),
        hazards=_listed("Hazard"),
        rights=_listed("FolderRights"),
        migration_=_TEXT,
    ),
    "pull": _form("An artifact that was unpacked.", "artifact digest signature", files=_TEXTS),
    "push": _form("A team's own manifests, published.", "artifact digest revision", published=_FLAG, signed=_FLAG),
    "rollback": _form(
        "A rollback, and what it breaks.",
        "artifact decision",
        **_MOVE,
        **_FINDINGS,
        hold={"anyOf": [_HOLD, {"type": "null"}]},
        otherHolds=_list(_HOLD),
        problem=_TEXT_OR_NULL,
        signedAgain=_FLAG,
        putsBack=_FLAG,
        versionTags=_TEXTS,
        gates=_listed("Verdict"),
        changed=_FLAG,
    ),
    "lift": _form("The holds that `rollback --lift` ended.", "artifact digest", changed=_FLAG, lifted=_list(_HOLD)),
    "diff": _form(
        "What changes between two sides, and what that can break.",
        **dict[str, Schema].fromkeys(("from", "to"), _form("", "name remark", digest=_TEXT_OR_NULL)),
        **_FINDINGS,
        overlaysCompared=_FLAG,
    ),
    "doctor": _form("What keeps runs from their work.", healthy=_FLAG, findings=_listed("Diagnosis")),
    "setup": _form(
        "The files that `setup` wrote, and the steps that it left to a person.",
        files=_list(_form("", "path state")),
        steps=_list(_form("", "section text commands", done=_FLAG)),
    ),
    "config": _form(
        "A configuration that is valid, and workflows that fit.",
        valid=_FLAG,
        file_=_TEXT,
        artifacts_=_TEXTS,
        workflows_=_TEXTS,
        advice_=_TEXTS,
    ),
    "prune": _form(
        "Old artifacts of a repository: what goes, and what stays.",
        repository=_TEXT,
        applied=_FLAG,
        goes=_list(_form(**_STORED)),
        leftovers=_TEXTS,
        stays=_list(_form(**_STORED, because=_TEXT)),
        deleted=_list(_form("", "what digest")),
        keptAfterAll=_list(_form(digest=_TEXT, tags=_TEXTS)),
    ),
    "bootstrap": _form("A cluster that follows a channel.", "artifact digest version revision"),
    "bootstrap-manifests": _form(
        "The order of the first installation.", "artifact digest version", steps=_OBJECTS, secrets=_OBJECTS
    ),
    "attach": _form("What was attached to an artifact.", "artifact digest attachment type"),
    "discover": _form("What is attached to an artifact.", "artifact digest", attachments=_OBJECTS),
    "mirror": _form("Releases in a folder.", folder=_TEXT, releases=_OBJECTS),
    "mirror-images": _form("Images of the controllers in another registry.", to=_TEXT, images=_OBJECTS),
    "mirror-push": _form("Releases in a repository of a registry.", repository=_TEXT, releases=_OBJECTS),
}


def output_schema(form: str) -> Schema:
    """Return the JSON schema of a form, with the parts that it needs."""
    name = f"flux-manifests.{form}/v1"
    made = FORMS[form]
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        **made,
        "properties": {"schema": {"const": name}, **made["properties"]},
        "required": ["schema", *made["required"]],
    }
    parts = _parts() if _named(made) else {}
    needed: list[str] = []
    new = _named(made)
    while new:
        needed += new
        new = [part for part in _named([parts[part] for part in new]) if part not in needed]
    return {**schema, "$defs": {part: parts[part] for part in needed}} if needed else schema


def _named(schema: object) -> list[str]:
    return list(dict.fromkeys(re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema))))


def _parts() -> dict[str, Schema]:
    """Return the schemas of parts by the names of their classes; each key is always there, and words may get more."""
    from msgspec.json import schema_components

    from ci_automation.flows.doctor import Diagnosis
    from ci_automation.impact.change import Change, ChangeClass, FileDiff, Hazard
    from ci_automation.impact.rights import FolderRights
    from ci_automation.policy.decision import Verdict
    from ci_automation.policy.plan import ImageChange

    described = (Change, ChangeClass, FileDiff, Hazard, FolderRights, Verdict, ImageChange, Diagnosis)
    _, parts = schema_components(described, ref_template="#/$defs/{name}")
    for part in parts.values():
        part["description"] = part["description"].partition("\n")[0]
        if "enum" in part:
            part |= {"type": "string", "examples": part.pop("enum")}
        else:
            part["required"] = list(part["properties"])
            for value in part["properties"].values():
                value.pop("default", None)
    parts["Change"]["properties"]["class"] = {"$ref": "#/$defs/ChangeClass"}
    parts["Hazard"]["properties"]["fingerprint"] = _TEXT
    return parts


class _Named(click.Choice[str]):
    """A choice that takes what stands in `schema` of an output too, such as flux-manifests.results/v1."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of a form."""
        return super().convert(value.removeprefix("flux-manifests.").removesuffix("/v1"), param, ctx)


@click.command("schema", cls=HeadedCommand, epilog=f"NAME is one of {', '.join(FORMS)}.")
@click.argument("name", metavar="NAME", type=_Named(list(FORMS)))
@details_option
def schema_command(name: str) -> None:
    """Print the JSON schema of an output, by the name that it has in `schema`.

    \b
    flux-manifests schema results > results.schema.json
    """
    print_json(output_schema(name))
