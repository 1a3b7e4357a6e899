/*
 * Members of a consumer group with librdkafka: read, commit, and print how many records a second all of them had as JSON.
 *
 *   group_rdkafka LIBRARY ADDRESS GROUP TOPIC MEMBERS COMMIT_MS WARMUP SECONDS AT_LEAST LIMIT
 *
 * LIBRARY is a librdkafka 2.16 (the one inside confluent-kafka's wheel), loaded at run time as in share_rdkafka.c. Each
 * member is a thread with a consumer of its own and librdkafka's defaults. COMMIT_MS 0 leaves auto-commit as it is (each
 * five seconds); else the member commits what it has had so often, without waiting for the answer. The warm-up counts from
 * the moment in which all members have had a record, or WARMUP seconds after the first had one. The window ends with
 * SECONDS and AT_LEAST records, or after LIMIT seconds. A commit that is refused is an error.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

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

enum { CONSUMER = 1, MEMBERS = 64, BATCH = 1000 };

static void *(*conf_new)(void);
static int (*conf_set)(void *, const char *, const char *, char *, size_t);
static void (*conf_set_offset_commit_cb)(void *, void (*)(void *, int, void *, void *));
static void *(*new_)(int, void *, char *, size_t);
static int (*poll_set_consumer)(void *);
static void *(*queue_get_consumer)(void *);
static ssize_t (*consume_batch_queue)(void *, int, rd_kafka_message_t **, size_t);
static void *(*list_new)(int);
static void *(*list_add)(void *, const char *, int32_t);
static int (*subscribe)(void *, const void *);
static int (*commit)(void *, const void *, int);
static int (*poll_)(void *, int);
static int (*consumer_close)(void *);
static void (*message_destroy)(rd_kafka_message_t *);
static const char *(*err2str)(int);

static atomic_long counts[MEMBERS];
static atomic_long commits;
static atomic_int stop;
static const char *address, *group, *topic;
static int commit_ms;

static void fail(const char *what, const char *why) {
        fprintf(stderr, "%s: %s\n", what, why);
        exit(1);
}

static void *find(void *library, const char *name) {
        void *found = dlsym(library, name);
        if (found == NULL)
                fail("librdkafka", dlerror());
        return found;
}

static void load(const char *path) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
                fail("librdkafka cannot be loaded", dlerror());
        conf_new                  = find(library, "rd_kafka_conf_new");
        conf_set                  = find(library, "rd_kafka_conf_set");
        conf_set_offset_commit_cb = find(library, "rd_kafka_conf_set_offset_commit_cb");
        new_                      = find(library, "rd_kafka_new");
        poll_set_consumer         = find(library, "rd_kafka_poll_set_consumer");
        queue_get_consumer        = find(library, "rd_kafka_queue_get_consumer");
        consume_batch_queue       = find(library, "rd_kafka_consume_batch_queue");
        list_new                  = find(library, "rd_kafka_topic_partition_list_new");
        list_add                  = find(library, "rd_kafka_topic_partition_list_add");
        subscribe                 = find(library, "rd_kafka_subscribe");
        commit                    = find(library, "rd_kafka_commit");
        poll_                     = find(library, "rd_kafka_poll");
        consumer_close            = find(library, "rd_kafka_consumer_close");
        message_destroy           = find(library, "rd_kafka_message_destroy");
        err2str                   = find(library, "rd_kafka_err2str");
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

static void committed(void *consumer, int err, void *offsets, void *opaque) {
        /* nothing to commit, or the group is being rebalanced: the next one says it again */
        if (err != 0 && err != -168 && err != 27 && err != 22)
                fail("commit", err2str(err));
        if (err == 0)
                atomic_fetch_add(&commits, 1);
}

static void *member(void *argument) {
        long number = (long)argument;
        char text[512];
        void *conf             = conf_new();
        const char *settings[] = {"bootstrap.servers",  address,
                                  "group.id",           group,
                                  "auto.offset.reset",  "earliest",
                                  "enable.auto.commit", commit_ms ? "false" : "true"};
        for (int i = 0; i < 8; i += 2)
                if (conf_set(conf, settings[i], settings[i + 1], text, sizeof(text)) != 0)
                        fail("setting", text);
        conf_set_offset_commit_cb(conf, committed);
        void *consumer = new_(CONSUMER, conf, text, sizeof(text));
        if (consumer == NULL)
                fail("consumer", text);
        poll_set_consumer(consumer);
        void *list = list_new(1);
        list_add(list, topic, -1);
        if (subscribe(consumer, list) != 0)
                fail("subscribe", topic);
        void *queue = queue_get_consumer(consumer);
        rd_kafka_message_t *found[BATCH];
        double next = now() + commit_ms / 1e3;
        while (!atomic_load(&stop)) {
                ssize_t size = consume_batch_queue(queue, 100, found, BATCH);
                long good    = 0;
                for (ssize_t i = 0; i < size; i++) {
                        if (found[i]->err == 0)
                                good++;
                        message_destroy(found[i]);
                }
                atomic_fetch_add(&counts[number], good);
                if (commit_ms && now() >= next) {
                        commit(consumer, NULL, 1);
                        next = now() + commit_ms / 1e3;
                }
        }
        consumer_close(consumer);
        return NULL;
}

static long total(int members, int *with) {
        long sum = 0;
        *with    = 0;
        for (int i = 0; i < members; i++) {
                long count = atomic_load(&counts[i]);
                sum += count;
                *with += count > 0;
        }
        return sum;
}

int main(int argc, char **argv) {
        if (argc != 11)
                fail("group_rdkafka", "expected ten arguments");
        load(argv[1]);
        address = argv[2], group = argv[3], topic = argv[4];
        int members = atoi(argv[5]);
        commit_ms   = atoi(argv[6]);
        double warmup = atof(argv[7]), seconds = atof(argv[8]), limit = atof(argv[10]);
        long at_least = atol(argv[9]);
        if (members < 1 || members > MEMBERS)
                fail("members", argv[5]);
        pthread_t threads[MEMBERS];
        double created = now();
        for (long i = 0; i < members; i++)
                pthread_create(&threads[i], NULL, member, (void *)i);
        double first = 0, joined = 0, start = 0, end = 0, used = 0;
        long before = 0, sum = 0;
        while (end == 0) {
                usleep(20000);
                int with;
                double t = now();
                sum      = total(members, &with);
                if (first == 0 && with > 0)
                        first = t;
                if (joined == 0 && with == members)
                        joined = t;
                if (first == 0 && t > created + 60)
                        fail("members", "no record within 60 s");
                if (start == 0 && first != 0 && (joined != 0 ? t >= joined + warmup : t >= first + 2 * warmup + 10)) {
                        start  = t;
                        before = sum;
                        used   = cpu();
                }
                if (start != 0 && ((t >= start + seconds && sum - before >= at_least) || t >= start + limit))
                        end = t;
        }
        double spent = cpu() - used;
        int with;
        total(members, &with);
        printf("{\"records\": %ld, \"seconds\": %.3f, \"records_per_second\": %.1f, \"join_seconds\": %.3f, "
               "\"members\": %d, \"commits\": %ld, \"generator_cpu_seconds\": %.2f}\n",
               sum - before, end - start, (sum - before) / (end - start), (joined ? joined : start) - created, with,
               atomic_load(&commits), spent);
        fflush(stdout);
        /* how it ends is not measured */
        _exit(0);
}
