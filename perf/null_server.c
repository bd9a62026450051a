/* The floor: the least that a server can do for redis-benchmark and still answer. It waits, reads, finds the ends of the requests, answers a
 * constant, and sends; it looks nothing up and stores nothing. What a real server costs above it is the server's own doing, the rest
 * is the kernel's. It trusts its client: for measuring only.
 *
 *   cc -O3 -march=native null_server.c -o null_server && ./null_server PORT VALUE_BYTES
 *
 * GET is answered by a value of VALUE_BYTES, MGET by one a key, CONFIG by an empty array, everything else by +OK. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 512, WINDOW = 1 << 20, CLIENTS = 1 << 16 };
static const size_t OUTPUT = (size_t)1 << 32; /* address space; pages come with use */

/* What came of a request that is not complete yet. Complete ones leave nothing behind. */
static struct tail { char *bytes; size_t length, capacity; } tails[CLIENTS];

/* The answers of one wake-up, one client behind the other. */
static char *output;
static size_t output_length;
static struct answer { int fd; size_t from, to; } answers[EVENTS];
static int answer_count;

static char value[(1 << 20) + 32]; /* a whole bulk string */
static size_t value_length;

static void say(const char *bytes, size_t length) {
    memcpy(output + output_length, bytes, length);
    output_length += length;
}

/* A decimal number and its CRLF at `p`; the byte behind, or NULL when they are not all there. */
static const char *read_number(const char *p, const char *end, unsigned *n) {
    unsigned sum = 0;
    for (; p < end && *p != '\r'; p++) sum = sum * 10 + (unsigned)(*p - '0');
    *n = sum;
    return end - p >= 2 ? p + 2 : NULL;
}

/* Answers the request at `p`; the byte behind it, or NULL when it is not all there. */
static const char *answer_one(const char *p, const char *end) {
    if (*p != '*') { /* an inline PING */
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        if (!newline) return NULL;
        say("+OK\r\n", 5);
        return newline + 1;
    }
    unsigned count, length;
    const char *name = NULL;
    if (!(p = read_number(p + 1, end, &count))) return NULL;
    for (unsigned i = 0; i < count; i++) {
        if (p >= end || !(p = read_number(p + 1, end, &length))) return NULL;
        if ((size_t)(end - p) < (size_t)length + 2) return NULL;
        if (i == 0) name = p;
        p += length + 2;
    }
    switch (name[0] | 32) {
    case 'g': say(value, value_length); break;
    case 'c': say("*0\r\n", 4); break;
    case 'm':
        if ((name[1] | 32) == 'g') {
            output_length += (size_t)sprintf(output + output_length, "*%u\r\n", count - 1);
            while (--count) say(value, value_length);
            break;
        } /* fall through */
    default: say("+OK\r\n", 5);
    }
    return p;
}

static void send_all(void) {
    for (int i = 0; i < answer_count; i++) {
        for (size_t at = answers[i].from; at < answers[i].to;) {
            ssize_t sent = send(answers[i].fd, output + at, answers[i].to - at, MSG_NOSIGNAL);
            if (sent >= 0) { at += (size_t)sent; continue; }
            if (errno != EAGAIN) break;
            poll(&(struct pollfd){.fd = answers[i].fd, .events = POLLOUT}, 1, -1);
        }
    }
    answer_count = 0;
    output_length = 0;
}

static void serve(int fd, char *window) {
    struct tail *tail = &tails[fd];
    size_t from = output_length;
    for (;;) {
        memcpy(window, tail->bytes, tail->length);
        size_t room = WINDOW - tail->length;
        ssize_t got = recv(fd, window + tail->length, room, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            close(fd);
            tail->length = 0;
            output_length = from;
            return;
        }
        if (got < 0) break;
        const char *p = window, *end = window + tail->length + got, *next;
        while (p < end && (next = answer_one(p, end))) p = next;
        tail->length = (size_t)(end - p);
        if (tail->length > tail->capacity) tail->bytes = realloc(tail->bytes, tail->capacity = WINDOW);
        memcpy(tail->bytes, p, tail->length);
        if ((size_t)got < room) break;
    }
    if (output_length > from) answers[answer_count++] = (struct answer){fd, from, output_length};
}

int main(int argc, char **argv) {
    if (argc != 3) { fprintf(stderr, "usage: null_server PORT VALUE_BYTES\n"); return 2; }
    unsigned value_bytes = (unsigned)atoi(argv[2]);
    if (value_bytes > 1 << 20) return 2;
    value_length = (size_t)sprintf(value, "$%u\r\n", value_bytes);
    memset(value + value_length, 'x', value_bytes);
    memcpy(value + value_length + value_bytes, "\r\n", 2);
    value_length += value_bytes + 2;
    output = mmap(NULL, OUTPUT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *window = malloc(WINDOW);

    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 1024)) { perror("null_server"); return 1; }
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.fd = listener});

    static struct epoll_event events[EVENTS];
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) { serve(fd, window); continue; }
            while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                if (fd >= CLIENTS) { close(fd); continue; }
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN | EPOLLET, .data.fd = fd});
            }
        }
        send_all();
    }
}
