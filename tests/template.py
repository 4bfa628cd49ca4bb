"""What SAM and CloudFormation make of the template, asked of SAM itself and of the emulator's reading of `Rules`; and where
a roll back goes.

    python template.py versions <template>            which functions get a new version after which change
    python template.py declined <template> <values>   which of these parameters, a JSON list of objects, are declined
    python template.py back <stack.py> <standing>     the steps of a roll back, for each of these cases
"""

import importlib.util
import json
import logging
import pathlib
import sys

from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

# Where `sam deploy` has put code and flows: SAM takes no folders.
UPLOADED = {
    "../functions/intake": "s3://bucket/intake",
    "../functions/processor": "s3://bucket/processor",
    "../functions/replay": "s3://bucket/replay",
    "flows/": "s3://bucket/flows",
}


class ManagedPolicies:
    def load(self):
        return {}


def uploaded(text, changed=None):
    for folder, url in UPLOADED.items():
        text = text.replace(f"Uri: {folder}\n", f"Uri: {url}{'-changed' if url == changed else ''}\n")
    return yaml_parse(text)


def versions(template):
    """The logical ids of the versions: CloudFormation publishes one for each id that it does not know."""
    resources = transform(template, {"AWS::Region": "us-east-1"}, ManagedPolicies())["Resources"]
    ids = [name for name, resource in resources.items() if resource["Type"] == "AWS::Lambda::Version"]
    return {name.split("Version")[0]: name for name in ids}


def published(text):
    before = versions(uploaded(text))
    changes = {
        "nothing": uploaded(text),
        "flows": uploaded(text, "s3://bucket/flows"),
        "parameters": uploaded(text.replace("PARAMETERS: unknown", "PARAMETERS: v1")),
        "processor": uploaded(text, "s3://bucket/processor"),
    }
    return {
        change: sorted(name for name, version in versions(after).items() if version != before[name])
        for change, after in changes.items()
    }


def declined(text, cases):
    from ministack.services.cloudformation.engine import _evaluate_rules, _parse_template

    template = _parse_template(text)
    said = []
    for case in cases:
        values = {name: str(it["Default"]) for name, it in template["Parameters"].items()} | case
        try:
            _evaluate_rules(template, {name: {"Value": value} for name, value in values.items()}, {})
            said.append(None)
        except ValueError as error:
            said.append(str(error))
    return said


def back(path, cases):
    spec = importlib.util.spec_from_file_location("stack", path)
    stack = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stack)
    said = []
    for functions, moved in cases:
        stack.standing, stack.moved_by_hand = lambda _: functions, lambda _: moved
        try:
            said.append(stack.steps_back("a"))
        except stack.Declined as declined:
            said.append(str(declined))
    return said


def main():
    logging.disable(logging.CRITICAL)
    sys.dont_write_bytecode = True
    verb, path, *more = sys.argv[1:]
    text, cases = pathlib.Path(path).read_text(), json.loads(more[0]) if more else []
    match verb:
        case "versions":
            said = published(text)
        case "declined":
            said = declined(text, cases)
        case "back":
            said = back(path, cases)
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
