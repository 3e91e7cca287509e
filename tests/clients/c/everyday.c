/* An application's use of hiredis: prints each part that has passed. table.py has the arguments.
 *
 * usage: everyday-hiredis PORT TLS_PORT CA CLUSTER_PORT
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "events.h"
#include "hiredis.h"
#include "hiredis_ssl.h"

#define PATIENCE 60
#define ADD "return redis.call('INCRBY', KEYS[1], ARGV[1])"

static char **arguments;
static redisContext *client;

/* Ends the process unless the condition holds. */
#define must(condition)                                                            \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

static redisContext *connect_to(const char *port) {
    redisContext *context = redisConnectWithTimeout("127.0.0.1", atoi(port), (struct timeval){PATIENCE, 0});
    must(context && !context->err);
    must(redisEnableKeepAlive(context) == REDIS_OK);
    return context;
}

static redisReply *ask(redisContext *context, const char *format, ...) {
    va_list words;
    va_start(words, format);
    redisReply *reply = redisvCommand(context, format, words);
    va_end(words);
    must(reply);
    return reply;
}

/* The number that a command returns. */
static long long number(redisReply *reply) {
    must(reply->type == REDIS_REPLY_INTEGER);
    long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

/* Whether a command returns this text. */
static int says(redisReply *reply, const char *text) {
    int is = (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS ||
              reply->type == REDIS_REPLY_VERB || reply->type == REDIS_REPLY_ERROR) &&
             strcmp(reply->str, text) == 0;
    freeReplyObject(reply);
    return is;
}

static void *count(void *unused) {
    redisContext *own = connect_to(arguments[1]);
    for (int n = 0; n < 200; n++) must(number(ask(own, "INCR pool")) > 0);
    redisFree(own);
    return unused;
}

static void threads(void) {
    pthread_t all[16];
    for (int n = 0; n < 16; n++) must(pthread_create(&all[n], NULL, count, NULL) == 0);
    for (int n = 0; n < 16; n++) must(pthread_join(all[n], NULL) == 0);
    must(says(ask(client, "GET pool"), "3200"));
}

static void pipeline(void) {
    for (int n = 0; n < 5000; n++) must(redisAppendCommand(client, "SET pipe:%d %d", n, n) == REDIS_OK);
    for (int n = 0; n < 5000; n++) {
        redisReply *reply;
        must(redisGetReply(client, (void **)&reply) == REDIS_OK && says(reply, "OK"));
    }
    /* Bytes of any value. */
    char bytes[256];
    for (int n = 0; n < 256; n++) bytes[n] = (char)n;
    must(says(ask(client, "SET %b %b", bytes, sizeof bytes, bytes, sizeof bytes), "OK"));
    redisReply *reply = ask(client, "GET %b", bytes, sizeof bytes);
    must(reply->len == sizeof bytes && memcmp(reply->str, bytes, sizeof bytes) == 0);
    freeReplyObject(reply);
}

static void transaction(void) {
    redisContext *other = connect_to(arguments[1]);
    must(says(ask(client, "SET account 10"), "OK"));
    for (int run = 0; run < 2; run++) {
        must(says(ask(client, "WATCH account"), "OK"));
        /* The first try fails: another client changes the watched key. */
        if (run == 0) must(says(ask(other, "SET account 5"), "OK"));
        must(says(ask(client, "MULTI"), "OK"));
        must(says(ask(client, "DECR account"), "QUEUED"));
        redisReply *reply = ask(client, "EXEC");
        must(run == 0 ? reply->type == REDIS_REPLY_NIL
                      : reply->type == REDIS_REPLY_ARRAY && reply->element[0]->integer == 4);
        freeReplyObject(reply);
    }
    redisFree(other);
}

static void *push_when_blocked(void *unused) {
    redisContext *own = connect_to(arguments[1]);
    for (time_t end = time(NULL) + PATIENCE;; usleep(10000)) {
        redisReply *reply = ask(own, "INFO clients");
        int is_blocked = strstr(reply->str, "blocked_clients:1") != NULL;
        freeReplyObject(reply);
        if (is_blocked) break;
        must(time(NULL) < end);
    }
    must(number(ask(own, "RPUSH jobs work")) == 1);
    redisFree(own);
    return unused;
}

static void blocking_pop(void) {
    pthread_t pusher;
    must(pthread_create(&pusher, NULL, push_when_blocked, NULL) == 0);
    redisReply *reply = ask(client, "BLPOP jobs %d", PATIENCE);
    must(reply->elements == 2 && strcmp(reply->element[1]->str, "work") == 0);
    freeReplyObject(reply);
    must(pthread_join(pusher, NULL) == 0);
}

static void reconnection(void) {
    redisContext *victim = connect_to(arguments[1]);
    for (int n = 1; n <= 20; n++) {
        long long id = number(ask(victim, "CLIENT ID"));
        must(number(ask(client, "CLIENT KILL ID %lld", id)) == 1);
        must(redisCommand(victim, "INCR n") == NULL && victim->err != 0);
        must(redisReconnect(victim) == REDIS_OK);
        must(number(ask(victim, "INCR n")) == n);
    }
    redisFree(victim);
}

typedef struct {
    int subscribed;
    int seen;
    int failed;
} Subscriber;

static void on_message(redisAsyncContext *context, void *answer, void *data) {
    Subscriber *subscriber = data;
    redisReply *reply = answer;
    (void)context;
    if (reply == NULL) return;
    if (strcmp(reply->element[0]->str, "subscribe") == 0) subscriber->subscribed = 1;
    if (strcmp(reply->element[0]->str, "message") == 0 && strcmp(reply->element[2]->str, "two") == 0) subscriber->seen++;
}

static void on_disconnect(const redisAsyncContext *context, int status) {
    if (status != REDIS_OK) ((Subscriber *)context->data)->failed = 1;
}

static void subscribe(Loop *loop, Subscriber *subscriber) {
    redisAsyncContext *context = redisAsyncConnect("127.0.0.1", atoi(arguments[1]));
    must(context && !context->err);
    *subscriber = (Subscriber){0};
    context->data = subscriber;
    attach(loop, context);
    redisAsyncSetDisconnectCallback(context, on_disconnect);
    must(redisAsyncCommand(context, on_message, subscriber, "SUBSCRIBE news") == REDIS_OK);
    for (time_t end = time(NULL) + PATIENCE; !subscriber->subscribed; step(loop, 10)) must(time(NULL) < end);
}

static void lost_subscription(void) {
    Loop loop;
    Subscriber subscriber;
    for (int run = 0; run < 10; run++) {
        subscribe(&loop, &subscriber);
        must(number(ask(client, "PUBLISH news two")) == 1);
        for (time_t end = time(NULL) + PATIENCE; !subscriber.seen; step(&loop, 10)) must(time(NULL) < end);
        must(number(ask(client, "CLIENT KILL TYPE pubsub")) == 1);
        /* The application connects again. */
        for (time_t end = time(NULL) + PATIENCE; !loop.is_over; step(&loop, 10)) must(time(NULL) < end);
        must(subscriber.failed && subscriber.seen == 1);
    }
}

static void on_number(redisAsyncContext *context, void *answer, void *data) {
    long long *sum = data;
    redisReply *reply = answer;
    (void)context;
    must(reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == *sum + 1);
    *sum = reply->integer;
}

static void asynchronous(void) {
    Loop loop;
    Subscriber state = {0};
    long long sum = 0;
    redisAsyncContext *context = redisAsyncConnect("127.0.0.1", atoi(arguments[1]));
    must(context && !context->err);
    context->data = &state;
    attach(&loop, context);
    redisAsyncSetDisconnectCallback(context, on_disconnect);
    for (int n = 0; n < 10000; n++) must(redisAsyncCommand(context, on_number, &sum, "INCR async") == REDIS_OK);
    redisAsyncDisconnect(context);
    for (time_t end = time(NULL) + PATIENCE; !loop.is_over; step(&loop, 10)) must(time(NULL) < end);
    must(sum == 10000 && !state.failed && says(ask(client, "GET async"), "10000"));
}

static void streams(void) {
    for (int n = 0; n < 100; n++) freeReplyObject(ask(client, "XADD events MAXLEN ~ 1000 * n %d", n));
    must(says(ask(client, "XGROUP CREATE events workers 0"), "OK"));
    for (int seen = 0; seen < 100;) {
        redisReply *batch = ask(client, "XREADGROUP GROUP workers w1 COUNT 16 STREAMS events >");
        must(batch->type == REDIS_REPLY_ARRAY);
        redisReply *entries = batch->element[0]->element[1];
        for (size_t n = 0; n < entries->elements; n++, seen++) {
            redisReply *entry = entries->element[n];
            must(atoi(entry->element[1]->element[1]->str) == seen);
            must(number(ask(client, "XACK events workers %s", entry->element[0]->str)) == 1);
        }
        freeReplyObject(batch);
    }
}

static void scripts(void) {
    redisReply *sha = ask(client, "SCRIPT LOAD %s", ADD);
    must(number(ask(client, "EVALSHA %s 1 script 2", sha->str)) == 2);
    must(says(ask(client, "SCRIPT FLUSH"), "OK"));
    must(says(ask(client, "EVALSHA %s 1 script 3", sha->str), "NOSCRIPT No matching script."));
    must(number(ask(client, "EVAL %s 1 script 3", ADD)) == 5);
    freeReplyObject(sha);
}

static void on_push(void *data, void *answer) {
    redisReply *reply = answer;
    must(reply->type == REDIS_REPLY_PUSH && reply->elements == 2);
    must(strcmp(reply->element[0]->str, "invalidate") == 0 && strcmp(reply->element[1]->element[0]->str, "cached") == 0);
    ++*(int *)data;
    freeReplyObject(reply);
}

static void pushes(void) {
    int invalidated = 0;
    redisContext *reader = connect_to(arguments[1]);
    redisReply *hello = ask(reader, "HELLO 3");
    must(hello->type == REDIS_REPLY_MAP);
    freeReplyObject(hello);
    reader->privdata = &invalidated;
    redisSetPushCallback(reader, on_push);
    must(says(ask(reader, "CLIENT TRACKING ON"), "OK"));
    for (int n = 1; n <= 100; n++) {
        must(says(ask(client, "SET cached %d", n), "OK"));
        freeReplyObject(ask(reader, "GET cached"));
        must(says(ask(client, "SET cached new"), "OK"));
        for (time_t end = time(NULL) + PATIENCE; invalidated < n;) {
            must(says(ask(reader, "PING"), "PONG"));
            must(time(NULL) < end);
        }
    }
    must(says(ask(reader, "GET cached"), "new") && invalidated == 100);
    redisReply *types = ask(reader, "ZADD scores 1.5 m");
    must(number(types) == 1);
    types = ask(reader, "ZSCORE scores m");
    must(types->type == REDIS_REPLY_DOUBLE && types->dval == 1.5);
    freeReplyObject(types);
    redisFree(reader);
}

static void tls(void) {
    redisSSLContextError error = REDIS_SSL_CTX_NONE;
    must(redisInitOpenSSL() == REDIS_OK);
    redisSSLContext *secure = redisCreateSSLContext(arguments[3], NULL, NULL, NULL, "localhost", &error);
    must(secure);
    redisContext *context = connect_to(arguments[2]);
    must(redisInitiateSSLWithContext(context, secure) == REDIS_OK);
    size_t length = 1000000;
    char *value = malloc(length);
    memset(value, 'x', length);
    must(says(ask(context, "SET tls %b", value, length), "OK"));
    redisReply *reply = ask(context, "GET tls");
    must(reply->len == length && memcmp(reply->str, value, length) == 0);
    freeReplyObject(reply);
    free(value);
    redisFree(context);
    redisFreeSSLContext(secure);
}

/* The library knows no slots: it shows the errors that redirect to an application. */
static void cluster(void) {
    redisContext *node = connect_to(arguments[4]);
    for (int n = 0; n < 100; n++) must(says(ask(node, "SET key:%d %d", n, n), "OK"));
    redisReply *reply = ask(node, "MGET key:1 key:2");
    must(reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "CROSSSLOT", 9) == 0);
    freeReplyObject(reply);
    reply = ask(node, "CLUSTER SLOTS");
    must(reply->elements == 1 && reply->element[0]->element[1]->integer == 16383);
    freeReplyObject(reply);
    redisFree(node);
}

int main(int count_of_arguments, char **given) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"threads", threads}, {"pipeline", pipeline}, {"transaction", transaction}, {"blocking pop", blocking_pop},
        {"reconnection", reconnection}, {"asynchronous requests", asynchronous}, {"lost subscription", lost_subscription},
        {"streams", streams}, {"scripts", scripts}, {"RESP3 pushes", pushes}, {"TLS", tls}, {"cluster", cluster},
    };
    arguments = given;
    must(count_of_arguments == 5);
    client = connect_to(arguments[1]);
    for (size_t n = 0; n < sizeof parts / sizeof *parts; n++) {
        parts[n].run();
        puts(parts[n].name);
        fflush(stdout);
    }
    puts("done");
    redisFree(client);
    return 0;
}
