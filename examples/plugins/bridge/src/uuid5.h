/* Names to UUIDs (version 5), so that one conversation has the same session each time. */
#ifndef UUID5_H
#define UUID5_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t sha1_rotated(uint32_t value, int by)
{
    return value << by | value >> (32 - by);
}

static void sha1_block(uint32_t state[5], const unsigned char *block)
{
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = sha1_rotated(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        uint32_t f, k;
        if (i < 20)
            f = (b & c) | (~b & d), k = 0x5A827999;
        else if (i < 40)
            f = b ^ c ^ d, k = 0x6ED9EBA1;
        else if (i < 60)
            f = (b & c) | (b & d) | (c & d), k = 0x8F1BBCDC;
        else
            f = b ^ c ^ d, k = 0xCA62C1D6;
        uint32_t next = sha1_rotated(a, 5) + f + e + k + w[i];
        e = d, d = c, c = sha1_rotated(b, 30), b = a, a = next;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

static void sha1(const unsigned char *data, size_t length, unsigned char digest[20])
{
    uint32_t state[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    unsigned char last[128] = {0};
    size_t whole = length / 64 * 64, rest = length - whole, size = rest < 56 ? 64 : 128;
    for (size_t at = 0; at < whole; at += 64)
        sha1_block(state, data + at);
    memcpy(last, data + whole, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        last[size - 1 - i] = (unsigned char)((uint64_t)length * 8 >> 8 * i);
    sha1_block(state, last);
    if (size == 128)
        sha1_block(state, last + 64);
    for (int i = 0; i < 20; i++)
        digest[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}

/* The UUID of a name, in a namespace of our own. */
static void uuid5(const char *name, char text[37])
{
    static const unsigned char space[16] = {0x3b, 0x0d, 0x5f, 0x52, 0x9a, 0x41, 0x4e, 0x0b,
                                            0x8c, 0x6e, 0x11, 0x7d, 0x24, 0xc0, 0x5a, 0xe9};
    unsigned char data[512], digest[20];
    size_t length = strlen(name);
    if (length > sizeof data - 16)
        length = sizeof data - 16;
    memcpy(data, space, 16);
    memcpy(data + 16, name, length);
    sha1(data, 16 + length, digest);
    digest[6] = (unsigned char)((digest[6] & 0x0F) | 0x50);
    digest[8] = (unsigned char)((digest[8] & 0x3F) | 0x80);
    char *out = text;
    for (int i = 0; i < 16; i++)
        out += sprintf(out, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02X" : "%02X", digest[i]);
}

#endif
