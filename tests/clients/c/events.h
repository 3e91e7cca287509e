/* An event loop for asynchronous connections of hiredis, over poll(2). */
#ifndef EVENTS_H
#define EVENTS_H

#include <poll.h>

#include "async.h"

typedef struct {
    redisAsyncContext *context;
    int wants_read;
    int wants_write;
    int is_over;
} Loop;

static void add_read(void *loop) { ((Loop *)loop)->wants_read = 1; }
static void delete_read(void *loop) { ((Loop *)loop)->wants_read = 0; }
static void add_write(void *loop) { ((Loop *)loop)->wants_write = 1; }
static void delete_write(void *loop) { ((Loop *)loop)->wants_write = 0; }

static void cleanup(void *loop) {
    ((Loop *)loop)->wants_read = ((Loop *)loop)->wants_write = 0;
    ((Loop *)loop)->is_over = 1;
}

static void attach(Loop *loop, redisAsyncContext *context) {
    *loop = (Loop){.context = context};
    context->ev.data = loop;
    context->ev.addRead = add_read;
    context->ev.delRead = delete_read;
    context->ev.addWrite = add_write;
    context->ev.delWrite = delete_write;
    context->ev.cleanup = cleanup;
}

/* Waits for one event, at most `milliseconds`. Does nothing after the connection has ended. */
static void step(Loop *loop, int milliseconds) {
    if (loop->is_over) return;
    short events = (loop->wants_read ? POLLIN : 0) | (loop->wants_write ? POLLOUT : 0);
    struct pollfd file = {.fd = loop->context->c.fd, .events = events};
    if (poll(&file, 1, milliseconds) <= 0) return;
    if (file.revents & (POLLIN | POLLHUP | POLLERR)) redisAsyncHandleRead(loop->context);
    if (!loop->is_over && file.revents & POLLOUT) redisAsyncHandleWrite(loop->context);
}

#endif
