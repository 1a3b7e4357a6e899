/*
 * Members of a consumer group with librdkafka: read, commit, and print how many records a second all of them had as JSON.
 *
 *   group_rdkafka LIBRARY ADDRESS GROUP TOPIC MEMBERS COMMIT_MS WARMUP SECONDS AT_LEAST LIMIT
 *
 * LIBRARY is a librdkafka, see rdkafka.h. Each member is a thread with a consumer of its own and librdkafka's defaults.
 * COMMIT_MS 0 leaves auto-commit as it is (each five seconds); else the member commits what it has had so often, without
 * waiting for the answer. The warm-up counts from the moment in which all members have had a record, or WARMUP seconds after
 * the first had one. The window ends with SECONDS and AT_LEAST records, or after LIMIT seconds. A commit that is refused is
 * an error.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "rdkafka.h"

enum { CONSUMER = 1, MEMBERS = 64, BATCH = 1000 };

static void (*conf_set_offset_commit_cb)(void *, void (*)(void *, int, void *, void *));
static void *(*new_)(int, void *, char *, size_t);
static int (*poll_set_consumer)(void *);
static void *(*queue_get_consumer)(void *);
static ssize_t (*consume_batch_queue)(void *, int, rd_kafka_message_t **, size_t);
static int (*subscribe)(void *, const void *);
static int (*commit)(void *, const void *, int);
static int (*consumer_close)(void *);
static void (*message_destroy)(rd_kafka_message_t *);

static atomic_long counts[MEMBERS];
static atomic_long commits;
static atomic_int stop;
static const char *address, *group, *topic;
static int commit_ms;

static void load_groups(void) {
        conf_set_offset_commit_cb = find("rd_kafka_conf_set_offset_commit_cb");
        new_                      = find("rd_kafka_new");
        poll_set_consumer         = find("rd_kafka_poll_set_consumer");
        queue_get_consumer        = find("rd_kafka_queue_get_consumer");
        consume_batch_queue       = find("rd_kafka_consume_batch_queue");
        subscribe                 = find("rd_kafka_subscribe");
        commit                    = find("rd_kafka_commit");
        consumer_close            = find("rd_kafka_consumer_close");
        message_destroy           = find("rd_kafka_message_destroy");
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
        const char *settings[] = {"bootstrap.servers",  address,
                                  "group.id",           group,
                                  "auto.offset.reset",  "earliest",
                                  "enable.auto.commit", commit_ms ? "false" : "true"};
        void *conf             = configured(settings, 8);
        conf_set_offset_commit_cb(conf, committed);
        void *consumer = new_(CONSUMER, conf, text, sizeof(text));
        if (consumer == NULL)
                fail("consumer", text);
        poll_set_consumer(consumer);
        if (subscribe(consumer, listed(topic)) != 0)
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
        load_groups();
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
