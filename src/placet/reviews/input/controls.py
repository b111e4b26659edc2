"""The control for each type of field, and its keyboard and autocomplete attributes."""

from collections.abc import Mapping

from placet.protocol.fields import CUSTOM, Field

MAX_RADIOS = 6
CONTROLS: Mapping[str, str] = {
    "text": "line",
    "textarea": "lines",
    "number": "number",
    "range": "range",
    "date": "date",
    "email": "email",
    "url": "url",
    "boolean": "yes_no",
    "select": "menu",
    "multiselect": "checks",
    CUSTOM: "line",
}
# Common keys for personal data that browsers can fill in.
FILL_IN: Mapping[str, str] = {
    "name": "name",
    "full_name": "name",
    "first_name": "given-name",
    "last_name": "family-name",
    "company": "organization",
    "street": "street-address",
    "address": "street-address",
    "postal_code": "postal-code",
    "zip": "postal-code",
    "city": "address-level2",
    "country": "country-name",
    "phone": "tel",
    "phone_number": "tel",
    "mobile": "tel",
    "telephone": "tel",
}
_PHONE_TYPES = frozenset({"x-tel", "x-phone"})


def choose_control(field: Field) -> str:
    """Return the name of the control; few options become radio buttons, many a menu."""
    if field.field_type == "select" and len(field.options) <= MAX_RADIOS:
        return "radios"
    if field.field_type == CUSTOM and field.bounds != (None, None):
        return "number"
    return CONTROLS[field.field_type]


def choose_keyboard_attributes(field: Field) -> dict[str, str]:
    """Return the attributes for the right keyboard and autocomplete."""
    if field.sensitive:
        mode = (
            {"inputmode": _choose_number_mode(field)} if choose_control(field) in ("number", "range") else {}
        )
        return {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false", **_drop_none(mode)}
    control = choose_control(field)
    if control in ("number", "range"):
        return {"autocomplete": "off", **_drop_none({"inputmode": _choose_number_mode(field)})}
    if control in ("email", "url"):
        return {"autocomplete": control, "inputmode": control}
    if control != "line":
        return {}
    known = "tel" if field.type in _PHONE_TYPES else FILL_IN.get(field.key.lower())
    if known == "tel":
        return {"autocomplete": "tel", "inputmode": "tel"}
    if field.validation.pattern is not None:
        return {"autocapitalize": "off", "spellcheck": "false"}
    return _drop_none({"autocomplete": known})


def _choose_number_mode(field: Field) -> str | None:
    """Return the input mode for a number; the number pads of some phones have no minus sign."""
    smallest = field.bounds[0]
    return None if isinstance(smallest, int | float) and smallest < 0 else "decimal"


def _drop_none(attributes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if value is not None}
