/*
 * What these programs have of librdkafka: its messages, the functions that all of them call, and how they find more.
 *
 * The library is a librdkafka 2.16 (the one inside confluent-kafka's wheel). It is loaded at run time, so that neither
 * its header nor a second copy of it is needed; what is declared here is its public interface. Each program includes this
 * once.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

static void *(*conf_new)(void);
static int (*conf_set)(void *, const char *, const char *, char *, size_t);
static void *(*list_new)(int);
static void *(*list_add)(void *, const char *, int32_t);
static const char *(*err2str)(int);

static void *library;

static void fail(const char *what, const char *why) {
        fprintf(stderr, "%s: %s\n", what, why);
        exit(1);
}

static void *find(const char *name) {
        void *found = dlsym(library, name);
        if (found == NULL)
                fail("librdkafka has not all that is needed", dlerror());
        return found;
}

static void load(const char *path) {
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
                fail("librdkafka cannot be loaded", dlerror());
        conf_new = find("rd_kafka_conf_new");
        conf_set = find("rd_kafka_conf_set");
        list_new = find("rd_kafka_topic_partition_list_new");
        list_add = find("rd_kafka_topic_partition_list_add");
        err2str  = find("rd_kafka_err2str");
}

/* A configuration of `number` strings: names and values by turns. */
static void *configured(const char **settings, int number) {
        char text[512];
        void *conf = conf_new();
        for (int i = 0; i < number; i += 2)
                if (conf_set(conf, settings[i], settings[i + 1], text, sizeof(text)) != 0)
                        fail("setting", text);
        return conf;
}

/* A list with all partitions of one topic, as subscriptions want it. */
static void *listed(const char *topic) {
        void *list = list_new(1);
        list_add(list, topic, -1);
        return list;
}

/* Seconds. */
static double now(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec + t.tv_nsec / 1e9;
}

/* Seconds that this process has used of the processors. */
static double cpu(void) {
        struct rusage u;
        getrusage(RUSAGE_SELF, &u);
        return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}
