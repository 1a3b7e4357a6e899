/*
 * One member of a share group with librdkafka's ShareConsumer: accepts each record by itself, prints what it saw as JSON.
 *
 *   share_rdkafka LIBRARY ADDRESS GROUP TOPIC PARTITIONS RECORDS WARMUP SECONDS AT_LEAST LIMIT RELEASE_EVERY
 *
 * LIBRARY is a librdkafka 2.16 (the one inside confluent-kafka's wheel): it is loaded at run time, so that neither its
 * header nor a second copy of it is needed; what is declared below is its public interface. The window begins when the
 * warm-up is over, or a third is read, and ends with SECONDS and AT_LEAST records, or after LIMIT seconds. RELEASE_EVERY
 * n releases the first delivery of each n-th record. A record that comes again after it was accepted is an error.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct rd_kafka_message_s {
        int err;
        void *rkt;
        int32_t partition;
        void *payload;
        size_t len;
        void *key;
        size_t key_len;
        int64_t offset;
        void *private_;
} rd_kafka_message_t;

enum { ACCEPT = 1, RELEASE = 2 };

static void *(*conf_new)(void);
static int (*conf_set)(void *, const char *, const char *, char *, size_t);
static void *(*consumer_new)(void *, char *, size_t);
static void *(*list_new)(int);
static void *(*list_add)(void *, const char *, int32_t);
static int (*subscribe)(void *, const void *);
static void *(*poll_)(void *, int, void **);
static size_t (*count_of)(const void *);
static rd_kafka_message_t *(*message_at)(const void *, size_t);
static void (*messages_destroy)(void *);
static int (*acknowledge)(void *, const rd_kafka_message_t *, int);
static int16_t (*delivery_count)(const rd_kafka_message_t *);
static const char *(*error_string)(const void *);
static void *(*close_)(void *);
static void (*set_callback)(void *, void (*)(void *, void *, int, void *), void *);
static const char *(*err2str)(int);

static const char *refused;

static void fail(const char *what, const char *why) {
        fprintf(stderr, "%s: %s\n", what, why);
        exit(1);
}

static void *find(void *library, const char *name) {
        void *found = dlsym(library, name);
        if (found == NULL)
                fail("librdkafka has no share groups", dlerror());
        return found;
}

static void load(const char *path) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
                fail("librdkafka cannot be loaded", dlerror());
        conf_new         = find(library, "rd_kafka_conf_new");
        conf_set         = find(library, "rd_kafka_conf_set");
        consumer_new     = find(library, "rd_kafka_share_consumer_new");
        list_new         = find(library, "rd_kafka_topic_partition_list_new");
        list_add         = find(library, "rd_kafka_topic_partition_list_add");
        subscribe        = find(library, "rd_kafka_share_subscribe");
        poll_            = find(library, "rd_kafka_share_poll");
        count_of         = find(library, "rd_kafka_messages_count");
        message_at       = find(library, "rd_kafka_messages_get");
        messages_destroy = find(library, "rd_kafka_messages_destroy");
        acknowledge      = find(library, "rd_kafka_share_acknowledge_type");
        delivery_count   = find(library, "rd_kafka_message_delivery_count");
        error_string     = find(library, "rd_kafka_error_string");
        close_           = find(library, "rd_kafka_share_consumer_close");
        set_callback     = find(library, "rd_kafka_share_set_acknowledgement_commit_cb");
        err2str          = find(library, "rd_kafka_err2str");
}

static void answered(void *consumer, void *partitions, int err, void *opaque) {
        if (err != 0 && refused == NULL)
                refused = err2str(err);
}

static double now(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu(void) {
        struct rusage u;
        getrusage(RUSAGE_SELF, &u);
        return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
        if (argc != 12)
                fail("share_rdkafka", "expected eleven arguments");
        load(argv[1]);
        const char *address = argv[2], *group = argv[3], *topic = argv[4];
        long partitions = atol(argv[5]), records = atol(argv[6]), at_least = atol(argv[9]), every = atol(argv[11]);
        double warmup = atof(argv[7]), seconds = atof(argv[8]), limit = atof(argv[10]);

        char text[512];
        void *conf             = conf_new();
        const char *settings[] = {"bootstrap.servers", address, "group.id", group,
                                  "share.acknowledgement.mode", "explicit"};
        for (int i = 0; i < 6; i += 2)
                if (conf_set(conf, settings[i], settings[i + 1], text, sizeof(text)) != 0)
                        fail("setting", text);
        void *consumer = consumer_new(conf, text, sizeof(text));
        if (consumer == NULL)
                fail("ShareConsumer", text);
        set_callback(consumer, answered, NULL);
        void *list = list_new(1);
        list_add(list, topic, -1);
        if (subscribe(consumer, list) != 0)
                fail("subscribe", topic);

        unsigned char *accepted = calloc(partitions * records, 1);
        long count = 0, released = 0, before = 0;
        double created = now(), joined = 0, start = 0, used = 0, end = 0;
        while (end == 0) {
                void *batch = NULL;
                void *error = poll_(consumer, 500, &batch);
                if (error != NULL)
                        fail("poll", error_string(error));
                size_t size = count_of(batch);
                for (size_t i = 0; i < size; i++) {
                        rd_kafka_message_t *message = message_at(batch, i);
                        if (message->err != 0)
                                fail("message", err2str(message->err));
                        if (message->offset >= records || message->partition >= partitions)
                                fail("message", "an offset that was not written");
                        unsigned char *mark = &accepted[message->partition * records + message->offset];
                        if (*mark)
                                fail("message", "came again after it had been accepted");
                        int type = ACCEPT;
                        if (every > 0 && message->offset % every == 0 && delivery_count(message) == 1)
                                type = RELEASE;
                        int refusal = acknowledge(consumer, message, type);
                        if (refusal != 0)
                                fail("acknowledge", err2str(refusal));
                        if (type == ACCEPT) {
                                *mark = 1;
                                count++;
                        } else
                                released++;
                }
                messages_destroy(batch);
                if (refused != NULL)
                        fail("an acknowledgement was refused", refused);
                double t = now();
                if (size > 0 && joined == 0)
                        joined = t;
                if (joined == 0 && t - created > 45)
                        fail("joining", "45 s passed before the first record");
                if (start == 0 && joined != 0 && (t - joined >= warmup || count >= records / 3)) {
                        start  = t;
                        before = count;
                        used   = cpu();
                }
                if (start != 0 && ((t - start >= seconds && count - before >= at_least) || t - start >= limit ||
                                   count >= records))
                        end = t;
        }
        used = cpu() - used;
        close_(consumer);
        if (refused != NULL)
                fail("an acknowledgement was refused", refused);
        if (end - start < seconds)
                fail("the window was too short", "more records are needed");
        printf("{\"records\": %ld, \"seconds\": %.3f, \"records_per_second\": %.1f, \"released\": %ld, "
               "\"join_seconds\": %.3f, \"generator_cpu_seconds\": %.3f}\n",
               count - before, end - start, (count - before) / (end - start), released, joined - created, used);
        return 0;
}
