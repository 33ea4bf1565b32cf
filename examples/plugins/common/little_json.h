/* As much JSON as a small plugin needs: finding values in a text, and writing a text. No state, any thread. */
#ifndef LITTLE_JSON_H
#define LITTLE_JSON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LJ_DEEPEST 64

/* ---- reading: a value is a pointer to where it begins in a text that stays where it is ---- */

static const char *lj_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static const char *lj_after_string(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && !*++at)
            return NULL;
    return *at ? at + 1 : NULL;
}

/* Where the value ends; NULL when it is none. */
static const char *lj_after(const char *at, int deep)
{
    at = lj_space(at);
    if (*at == '"')
        return lj_after_string(at);
    if (*at != '{' && *at != '[') {
        size_t length = strcspn(at, ",]} \t\r\n\"");
        return length ? at + length : NULL;
    }
    char end = *at == '{' ? '}' : ']';
    int object = *at == '{';
    if (deep >= LJ_DEEPEST)
        return NULL;
    at = lj_space(at + 1);
    if (*at == end)
        return at + 1;
    for (;;) {
        if (object) {
            if (*at != '"' || !(at = lj_after_string(at)))
                return NULL;
            at = lj_space(at);
            if (*at++ != ':')
                return NULL;
        }
        if (!(at = lj_after(at, deep + 1)))
            return NULL;
        at = lj_space(at);
        if (*at == end)
            return at + 1;
        if (*at++ != ',')
            return NULL;
        at = lj_space(at);
    }
}

/* The value of a key in an object, or NULL. Keys with escapes are not found. */
__attribute__((unused)) static const char *lj_find(const char *object, const char *key)
{
    if (!object || !lj_after(object, 0))
        return NULL;
    const char *at = lj_space(object);
    size_t length = strlen(key);
    if (*at++ != '{')
        return NULL;
    for (at = lj_space(at); *at == '"'; at = lj_space(at)) {
        const char *name = at + 1, *after = lj_after_string(at);
        int found = (size_t)(after - name - 1) == length && !strncmp(name, key, length);
        at = lj_space(lj_space(after) + 1);
        if (found)
            return at;
        at = lj_space(lj_after(at, 0));
        if (*at == ',')
            at++;
    }
    return NULL;
}

/* An entry of an array, or NULL. */
__attribute__((unused)) static const char *lj_item(const char *array, int number)
{
    if (!array || !lj_after(array, 0))
        return NULL;
    const char *at = lj_space(array);
    if (*at++ != '[')
        return NULL;
    for (at = lj_space(at); *at != ']'; at = lj_space(at)) {
        if (!number--)
            return at;
        at = lj_space(lj_after(at, 0));
        if (*at == ',')
            at++;
    }
    return NULL;
}

static int lj_hex(const char *at, unsigned *code)
{
    char digits[5] = {0}, *end;
    for (int i = 0; i < 4; i++)
        if (!(digits[i] = at[i]))
            return 0;
    *code = (unsigned)strtoul(digits, &end, 16);
    return end == digits + 4;
}

static char *lj_put(char *out, unsigned code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xC0 | code >> 6);
        *out++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *out++ = (char)(0xE0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    } else {
        *out++ = (char)(0xF0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 63));
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    }
    return out;
}

/* A string as it is meant, to be freed; NULL when the value is no string, or has a NUL in it. */
__attribute__((unused)) static char *lj_string(const char *value)
{
    const char *end = value && *value == '"' ? lj_after_string(value) : NULL;
    if (!end)
        return NULL;
    char *text = malloc((size_t)(end - value)), *out = text;
    if (!text)
        return NULL;
    for (const char *at = value + 1; at < end - 1; at++) {
        unsigned code, low;
        if (*at != '\\') {
            *out++ = *at;
            continue;
        }
        switch (*++at) {
        case 'b': *out++ = '\b'; break;
        case 'f': *out++ = '\f'; break;
        case 'n': *out++ = '\n'; break;
        case 'r': *out++ = '\r'; break;
        case 't': *out++ = '\t'; break;
        case 'u':
            if (!lj_hex(at + 1, &code) || !code) {
                free(text);
                return NULL;
            }
            at += 4;
            if (code >= 0xD800 && code < 0xDC00 && at[1] == '\\' && at[2] == 'u' && lj_hex(at + 3, &low) &&
                low >= 0xDC00 && low < 0xE000) {
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                at += 6;
            } else if (code >= 0xD800 && code < 0xE000) {
                code = 0xFFFD;
            }
            out = lj_put(out, code);
            break;
        default: *out++ = *at;
        }
    }
    *out = 0;
    return text;
}

/* A value as it is written, to be freed; NULL for none. */
__attribute__((unused)) static char *lj_raw(const char *value)
{
    const char *end = value ? lj_after(value, 0) : NULL;
    return end ? strndup(value, (size_t)(end - value)) : NULL;
}

__attribute__((unused)) static long long lj_number(const char *value, long long otherwise)
{
    char *end = NULL;
    long long number = value ? strtoll(value, &end, 10) : 0;
    return value && end != value ? number : otherwise;
}

/* ---- writing ---- */

struct lj {
    char *text;
    size_t used, size;
    int failed;
};

static void lj_bytes(struct lj *out, const char *bytes, size_t length)
{
    if (out->used + length + 1 > out->size && !out->failed) {
        size_t size = (out->used + length + 1) * 2;
        char *more = realloc(out->text, size);
        out->failed = !more;
        if (more) {
            out->text = more;
            out->size = size;
        }
    }
    if (out->failed)
        return;
    memcpy(out->text + out->used, bytes, length);
    out->used += length;
    out->text[out->used] = 0;
}

/* As it is. */
static void lj_add(struct lj *out, const char *text)
{
    lj_bytes(out, text, strlen(text));
}

/* As a string of JSON; null for NULL. */
__attribute__((unused)) static void lj_add_string(struct lj *out, const char *text)
{
    if (!text) {
        lj_add(out, "null");
        return;
    }
    lj_add(out, "\"");
    for (; *text; text++) {
        char escape[8] = {'\\', *text, 0};
        if (*text == '"' || *text == '\\')
            lj_add(out, escape);
        else if ((unsigned char)*text >= 0x20)
            lj_bytes(out, text, 1);
        else {
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*text);
            lj_add(out, escape);
        }
    }
    lj_add(out, "\"");
}

__attribute__((unused)) static void lj_add_number(struct lj *out, long long number)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", number);
    lj_add(out, digits);
}

/* Texts one after the other, up to a NULL: those at even places as they are, those at odd ones as strings of JSON.
   The result is to be freed; NULL where there was no memory. */
__attribute__((unused, sentinel)) static char *lj_write(const char *first, ...)
{
    struct lj out = {0};
    __builtin_va_list rest;
    __builtin_va_start(rest, first);
    int quoted = 0;
    for (const char *each = first; each; each = __builtin_va_arg(rest, const char *)) {
        if (quoted)
            lj_add_string(&out, each);
        else
            lj_add(&out, each);
        quoted = !quoted;
    }
    __builtin_va_end(rest);
    if (out.failed) {
        free(out.text);
        return NULL;
    }
    return out.text;
}

#endif
