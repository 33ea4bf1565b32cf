// One value of a form: its label, what is known about it, its control, whether it is set at all, and what is wrong
// with it. A member may be a group of members: the two modules need each other.

import { ABSENT, control } from "./controls.js";
import { button, h, uid } from "./dom.js";
import { group, isGroup } from "./groups.js";

/** A place for issues, and for the complaint of a control. */
export function notes() {
  const element = h("p", { class: "issue", id: uid("issue"), hidden: true });
  return {
    element,
    show(message) {
      element.textContent = [element.textContent, message].filter(Boolean).join(" ");
      element.hidden = false;
    },
    clear() {
      element.textContent = "";
      element.hidden = true;
    },
  };
}

/** An issue of something that has no field of its own. */
export function placed(path, message) {
  return path.length ? `${path.join(".")}: ${message}` : message;
}

export class Member {
  #shape;
  #required;
  #changed;
  #control = null;
  #value = ABSENT;
  #notes = notes();
  #place = h("div", { class: "control" });
  #unset;
  #null;

  constructor(name, shape, required, changed, { labelled = true } = {}) {
    this.name = name;
    this.#shape = shape;
    this.#required = required;
    this.#changed = changed;
    this.nested = isGroup(shape);
    this.#unset = button("", () => this.#put(ABSENT, true), {
      sign: "close",
      label: `Leave out ${name}`,
      kind: "quiet small",
    });
    this.#null = button("null", () => this.#put(this.#value === null ? this.#fresh() : null, true), {
      kind: "quiet small null",
      "aria-pressed": "false",
      "aria-label": `${name} is null`,
    });
    this.element = labelled
      ? this.#labelled()
      : h("div", { class: "item-field" }, this.#place, this.#null, this.#notes.element);
    this.#show();
  }

  get isSet() {
    return this.#value !== ABSENT;
  }

  get() {
    if (this.#value === ABSENT || this.#isNull) return this.#value;
    return this.nested ? this.#control.get() : this.#value;
  }

  set(value) {
    this.clear();
    this.#put(value, false);
  }

  focus() {
    if (this.#control) this.#control.focus();
    else this.element.querySelector("button")?.focus();
  }

  clear() {
    this.#notes.clear();
    this.#mark(false);
    if (this.nested) this.#control?.clear();
  }

  issue(path, message) {
    if (path.length && this.nested && this.#control) return this.#control.issue(path, message);
    if (message !== null) {
      this.#notes.show(placed(path, message));
      this.#mark(true);
    }
    return () => this.focus();
  }

  #labelled() {
    const { schema } = this.#shape;
    const single = !this.nested && this.#shape.kind !== "choice";
    this.id = uid("field");
    this.nameId = uid("name");
    const head = h(
      "div",
      { class: "field-head" },
      h(
        single ? "label" : "span",
        { class: "name", id: this.nameId, ...(single ? { htmlFor: this.id } : {}) },
        this.name,
        this.#required && h("span", { class: "required", title: "required", "aria-hidden": "true" }, "*"),
      ),
      h("span", { class: "words" }, this.#shape.words),
      h("span", { class: "grow" }),
      this.#null,
      this.#unset,
    );
    const about = schema.description
      ? h("p", { class: "about", id: uid("about") }, schema.description)
      : null;
    this.aboutId = about?.id;
    if (this.nested) {
      this.#place.setAttribute("role", "group");
      this.#place.setAttribute("aria-labelledby", this.nameId);
    }
    return h(
      "div",
      { class: `field ${this.nested ? "nested" : ""}`, data: { field: this.name } },
      head,
      about,
      this.#place,
      this.#notes.element,
    );
  }

  /** Where anything may stand, null is a value like others. */
  get #isNull() {
    return this.#value === null && this.#shape.kind !== "any";
  }

  #fresh() {
    return this.#shape.blank() ?? this.#shape.filled();
  }

  #put(value, told) {
    this.#value = value;
    if (value !== ABSENT && !this.#isNull) {
      this.#make();
      this.#control.set(value);
    }
    this.#show();
    if (told) {
      this.clear();
      this.#changed();
      if (value !== ABSENT && !this.#isNull) this.focus();
    }
  }

  #make() {
    if (this.#control) return;
    const changed = (value, empty, complaint) => {
      this.clear();
      if (!this.nested) this.#value = empty && !this.#required ? ABSENT : value;
      if (complaint) this.#notes.show(complaint);
      this.#show();
      this.#changed();
    };
    this.#control = this.nested
      ? group(this.#shape, changed)
      : control(this.#shape, changed, this.#shape.secret);
    const input = this.#control.input;
    if (!input) return;
    if (this.id) input.id = this.id;
    if (this.#required) input.setAttribute("aria-required", "true");
    if (!this.id) input.setAttribute("aria-label", this.name);
    else if (this.#shape.kind === "choice") input.setAttribute("aria-labelledby", this.nameId);
    input.setAttribute("aria-describedby", [this.aboutId, this.#notes.element.id].filter(Boolean).join(" "));
  }

  #show() {
    const absent = this.#value === ABSENT;
    const isNull = this.#isNull;
    this.element.classList.toggle("absent", absent);
    this.#unset.hidden = this.#required || absent;
    this.#null.hidden =
      !isNull && !(this.#shape.nullable && (this.#required || this.#shape.schema.default !== null));
    this.#null.setAttribute("aria-pressed", String(isNull));
    if (isNull) {
      this.#place.replaceChildren(h("code", { class: "only" }, "null"));
      return;
    }
    if (absent && (this.nested || this.#shape.choices.length === 1)) {
      this.#control = null;
      this.#place.replaceChildren(
        button(`Set ${this.name}`, () => this.#put(this.#fresh(), true), { kind: "quiet add", sign: "plus" }),
      );
      return;
    }
    this.#make();
    if (absent) this.#control.idle(this.#shape.schema.default);
    if (this.#place.firstChild !== this.#control.element) this.#place.replaceChildren(this.#control.element);
  }

  #mark(wrong) {
    this.element.classList.toggle("wrong", wrong);
    const input = this.#control?.input;
    if (wrong) input?.setAttribute("aria-invalid", "true");
    else input?.removeAttribute("aria-invalid");
  }
}
