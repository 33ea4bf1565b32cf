// What a JSON Schema says about a value, in the few words a form needs. It reads schemas and draws nothing.

import { copy, same, stringify } from "./exact.js";

const TELLING = new Set(["string", "number", "bigint", "boolean"]);
const PLAIN = new Set(["boolean", "integer", "number", "string"]);
const DEEPEST_WORDS = 2;
/** How deep a value to start from goes, where a type contains itself. */
const DEEPEST_BLANK = 8;
const without = (schema, ...keys) =>
  Object.fromEntries(Object.entries(schema).filter(([key]) => !keys.includes(key)));
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isNull = (schema) => schema.type === "null" || schema.const === null || same(schema.enum, [null]);

/** One schema with references followed and null set aside. */
export class Shape {
  /** `secrets` are the names of members whose values are not to be shown; what is inside one is `hidden`, too. */
  constructor(schema, secrets = [], root = undefined, hidden = false) {
    this.root = root ?? (isObject(schema) ? schema : {});
    this.secrets = secrets;
    this.hidden = hidden;
    this.nullable = false;
    this.schema = this.#settled(isObject(schema) ? schema : {});
    this.choices = this.#choices();
    this.branches = (this.schema.anyOf ?? []).map((each) => this.#inner(each));
    this.kind = this.#kind();
    this.cache = new Map();
  }

  get required() {
    return new Set(this.schema.required ?? []);
  }

  get hasDefault() {
    return "default" in this.schema;
  }

  get secret() {
    return this.hidden || this.schema.format === "password" || this.schema.writeOnly === true;
  }

  /** The declared members of an object, by name. */
  get members() {
    return Object.keys(this.schema.properties ?? {}).map((name) => [
      name,
      this.#made(`.${name}`, this.schema.properties[name], this.secrets.includes(name)),
    ]);
  }

  item(index) {
    const fixed = this.schema.prefixItems ?? [];
    const at = Math.min(index, fixed.length);
    return this.#made(`[${at}`, fixed[at] ?? this.schema.items ?? {});
  }

  /** How many items a tuple has; null for a list. */
  get fixed() {
    const fixed = this.schema.prefixItems?.length ?? 0;
    return fixed && this.schema.maxItems === fixed ? fixed : null;
  }

  /** The shape of members that are not declared; null where there may be none. */
  get others() {
    const others = this.schema.additionalProperties;
    if (others === false) return null;
    if (isObject(others) || others === true || this.kind === "record")
      return this.#made("*", isObject(others) ? others : {});
    return null;
  }

  /** How well a value fits, from 0 (not at all); deeper agreement counts more. */
  fit(value) {
    if (value === null) return this.nullable || this.kind === "any" ? 1 : 0;
    switch (this.kind) {
      case "any":
        return 0.5;
      case "choice":
        return this.choices.some((choice) => same(choice, value)) ? 3 : 0;
      case "union":
        return Math.max(...this.branches.map((branch) => branch.fit(value)));
      case "boolean":
        return typeof value === "boolean" ? 1 : 0;
      case "integer":
        return typeof value === "bigint" || Number.isInteger(value) ? 2 : 0;
      case "number":
        return typeof value === "number" || typeof value === "bigint" ? 1 : 0;
      case "string":
        return typeof value === "string" ? 1 : 0;
      case "array":
        return Array.isArray(value) ? 1 + average(value.map((item, at) => this.item(at).fit(item))) : 0;
      default:
        return isObject(value) ? 1 + this.#fitMembers(value) : 0;
    }
  }

  /** A value to start from: an example, the default, a first choice, or nothing yet. */
  blank(depth = 0) {
    const { schema } = this;
    if (schema.examples?.length) return copy(schema.examples[0]);
    if (this.hasDefault) return copy(schema.default);
    if (this.nullable && depth > 0) return null;
    return this.filled(depth);
  }

  /** The same, but neither the default nor null. */
  filled(depth = 0) {
    const { schema } = this;
    if (this.choices.length) return copy(this.choices[0]);
    switch (this.kind) {
      case "boolean":
        return false;
      case "integer":
      case "number":
        return Math.max(schema.minimum ?? 0, 0);
      case "array":
        return Array.from({ length: this.fixed ?? 0 }, (_, at) =>
          depth > DEEPEST_BLANK ? null : this.item(at).blank(depth + 1),
        );
      case "object":
        return Object.fromEntries(
          this.members
            .filter(([name]) => this.required.has(name))
            .map(([name, member]) => [name, depth > DEEPEST_BLANK ? null : member.blank(depth + 1)]),
        );
      case "record":
        return {};
      case "union":
        return this.branches[0].blank(depth + 1);
      default:
        return this.kind === "any" ? null : "";
    }
  }

  /** What it takes, in a few words: `text, 1 to 200 characters`. */
  get words() {
    const { schema } = this;
    const parts = [this.#noun()];
    const low = schema.minimum ?? schema.exclusiveMinimum;
    const high = schema.maximum ?? schema.exclusiveMaximum;
    if (low !== undefined && high !== undefined) parts.push(`${low} to ${high}`);
    else if (low !== undefined) parts.push(schema.minimum === undefined ? `above ${low}` : `at least ${low}`);
    else if (high !== undefined)
      parts.push(schema.maximum === undefined ? `below ${high}` : `at most ${high}`);
    const unit = this.kind === "string" ? "characters" : "items";
    const [least, most] =
      this.kind === "string" ? [schema.minLength, schema.maxLength] : [schema.minItems, schema.maxItems];
    if (this.fixed === null && least && most) parts.push(`${least} to ${most} ${unit}`);
    else if (this.fixed === null && least > 1) parts.push(`at least ${least} ${unit}`);
    else if (this.fixed === null && most) parts.push(`at most ${most} ${unit}`);
    const whole = parts.join(", ") + (this.nullable ? " or null" : "");
    return TELLING.has(typeof schema.default) && schema.default !== ""
      ? `${whole}, default ${label(schema.default)}`
      : whole;
  }

  /** What a union's chooser calls this branch. */
  get label() {
    return this.#named();
  }

  #named(depth = 0) {
    const tag = this.kind === "object" && this.members.find(([, member]) => member.choices.length === 1);
    if (tag) return String(tag[1].choices[0]);
    return this.schema.title ?? this.#noun(depth);
  }

  /** A list or a union may hold others of its own kind, without end: deeper than `DEEPEST_WORDS` it is just one. */
  #noun(depth = 0) {
    switch (this.kind) {
      case "string":
        return (
          {
            date: "date",
            "date-time": "date and time",
            time: "time",
            uuid: "UUID",
            email: "e-mail",
            uri: "URL",
            duration: "duration",
            password: "secret",
          }[this.schema.format] ?? "text"
        );
      case "integer":
        return "whole number";
      case "boolean":
        return "true or false";
      case "array":
        if (this.fixed !== null) return `${this.fixed} items`;
        return depth < DEEPEST_WORDS ? `list of ${this.item(Infinity).#noun(depth + 1)}` : "list";
      case "record":
        return "names and values";
      case "choice":
        return this.choices.length === 1 ? "always this" : "one of these";
      case "union":
        return this.branches.length <= 3 && depth < DEEPEST_WORDS
          ? this.branches.map((branch) => branch.#named(depth + 1)).join(" or ")
          : "one of these";
      case "any":
        return "any JSON";
      default:
        return this.kind;
    }
  }

  #made(key, schema, hidden = false) {
    if (!this.cache.has(key)) this.cache.set(key, this.#inner(schema, hidden));
    return this.cache.get(key);
  }

  #inner(schema, hidden = false) {
    return new Shape(schema, this.secrets, this.root, hidden || this.secret);
  }

  #fitMembers(value) {
    const members = new Map(this.members);
    const names = Object.keys(value);
    let known = 0;
    for (const name of names) {
      const fit = members.get(name)?.fit(value[name]) ?? (this.others ? 0.1 : 0);
      // A tag that says otherwise rules the whole shape out.
      if (fit === 0 && members.get(name)?.choices.length) return -1;
      known += Math.min(fit, 3);
    }
    const missing = [...this.required].filter((name) => !Object.hasOwn(value, name)).length;
    return (known - missing) / Math.max(names.length, 1);
  }

  #settled(given) {
    let schema = given;
    for (let step = 0; step < 32; step += 1) {
      if (typeof schema.$ref === "string") {
        schema = { ...this.#referenced(schema.$ref), ...without(schema, "$ref") };
        continue;
      }
      const key = ["anyOf", "oneOf", "allOf"].find(
        (each) => Array.isArray(schema[each]) && (each !== "allOf" || schema[each].length),
      );
      if (key === undefined) break;
      if (key === "allOf") {
        schema = schema.allOf.reduce((whole, part) => this.#merged(whole, part), without(schema, "allOf"));
        continue;
      }
      const listed = schema[key].filter(isObject);
      const rest = listed.filter((each) => !isNull(each));
      this.nullable ||= rest.length < listed.length;
      if (rest.length !== 1) return { ...without(schema, key), anyOf: rest };
      schema = { ...rest[0], ...without(schema, key) };
    }
    return this.#withoutNullType(schema);
  }

  #referenced(reference) {
    const steps = reference.replace(/^#\/?/, "").split("/").filter(Boolean);
    return (
      steps.reduce(
        (found, step) => found?.[decodeURIComponent(step).replace(/~1/g, "/").replace(/~0/g, "~")],
        this.root,
      ) ?? {}
    );
  }

  #merged(whole, part) {
    const added =
      typeof part.$ref === "string" ? { ...this.#referenced(part.$ref), ...without(part, "$ref") } : part;
    return {
      ...added,
      ...whole,
      ...(added.properties || whole.properties
        ? { properties: { ...added.properties, ...whole.properties } }
        : {}),
      ...(added.required || whole.required
        ? { required: [...(added.required ?? []), ...(whole.required ?? [])] }
        : {}),
    };
  }

  #withoutNullType(schema) {
    if (!Array.isArray(schema.type)) return schema;
    const rest = schema.type.filter((each) => each !== "null");
    this.nullable ||= rest.length < schema.type.length;
    if (rest.length === 1) return { ...schema, type: rest[0] };
    return { ...without(schema, "type"), anyOf: rest.map((type) => ({ type })) };
  }

  #choices() {
    const listed = "const" in this.schema ? [this.schema.const] : this.schema.enum;
    if (!Array.isArray(listed)) return [];
    this.nullable ||= listed.includes(null);
    return listed.filter((each) => each !== null);
  }

  #kind() {
    if (this.choices.length) return "choice";
    if (this.branches.length) return "union";
    const { type, properties } = this.schema;
    if (type === "array") return "array";
    if (type === "object" || properties)
      return Object.keys(properties ?? {}).length ? "object" : this.#emptyKind();
    return PLAIN.has(type) ? type : "any";
  }

  #emptyKind() {
    return this.schema.additionalProperties === false ? "object" : "record";
  }
}

function average(numbers) {
  return numbers.length ? numbers.reduce((sum, each) => sum + each, 0) / numbers.length : 0;
}

/** What a choice or a default is called: text as it is, anything else as JSON. */
export const label = (value) => (typeof value === "string" ? value : stringify(value));
