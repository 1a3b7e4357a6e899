/*
 * Members of a consumer group with librdkafka: read, commit, and print how many records a second all of them had as JSON.
 *
 *   group_rdkafka LIBRARY ADDRESS GROUP TOPIC MEMBERS COMMIT_MS RECORDS WARMUP SECONDS AT_LEAST LIMIT [STUCK KEY]
 *
 * LIBRARY is a librdkafka, see rdkafka.h. Each member is a thread with a consumer of its own and librdkafka's defaults.
 * COMMIT_MS 0 leaves auto-commit as it is (each five seconds); else the member commits what it has had so often, without
 * waiting for the answer. The warm-up counts from the moment in which all members have had a record, or WARMUP seconds after
 * the first had one. The window ends with SECONDS and AT_LEAST records, or after LIMIT seconds. A commit that is refused is
 * an error, and so is a topic of RECORDS that is empty before the window ends (0: it may be).
 *
 * STUCK has one message of KEY, the first that comes in the second half of the warm-up, never be done with:
 *   nack  the member names it in one commit (`n:600000=X`) and goes on
 *   hold  the member works on it for ever: it commits no further, and names what it has done above it (`a=X+1-Y`)
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "rdkafka.h"

typedef struct rd_kafka_topic_partition_s {
        char *topic;
        int32_t partition;
        int64_t offset;
        void *metadata;
        size_t metadata_size;
        void *opaque;
        int err;
        void *private_;
} rd_kafka_topic_partition_t;

enum { CONSUMER = 1, MEMBERS = 64, BATCH = 1000, LANES = 1024, NAMES = 128 };
enum stuck { NOTHING, NACK, HOLD };

static void (*conf_set_offset_commit_cb)(void *, void (*)(void *, int, void *, void *));
static void *(*new_)(int, void *, char *, size_t);
static int (*poll_set_consumer)(void *);
static void *(*queue_get_consumer)(void *);
static ssize_t (*consume_batch_queue)(void *, int, rd_kafka_message_t **, size_t);
static void (*list_destroy)(void *);
static int (*subscribe)(void *, const void *);
static int (*commit)(void *, const void *, int);
static int (*consumer_close)(void *);
static void (*message_destroy)(rd_kafka_message_t *);

static atomic_long counts[MEMBERS];
static atomic_long commits;
static atomic_int stop;
static const char *address, *group, *topic;
static int commit_ms;
/* the key of the message that is stuck, and how it is; whether one is to be, and whether one is */
static enum stuck how;
static const char *stuck_key;
static atomic_int wanted, named;

/* what a member has had: of each lane the next offset, and whether that is to be committed */
typedef struct {
        int64_t next[LANES];
        char news[LANES];
        /* the lane and the offset of its stuck message; -1: it has none */
        int lane;
        int64_t stuck;
} progress_t;

static void load_groups(void) {
        conf_set_offset_commit_cb = find("rd_kafka_conf_set_offset_commit_cb");
        new_                      = find("rd_kafka_new");
        poll_set_consumer         = find("rd_kafka_poll_set_consumer");
        queue_get_consumer        = find("rd_kafka_queue_get_consumer");
        consume_batch_queue       = find("rd_kafka_consume_batch_queue");
        list_destroy              = find("rd_kafka_topic_partition_list_destroy");
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

/* Whether a message is the one that gets stuck, which it is from now on. */
static int gets_stuck(const rd_kafka_message_t *found) {
        int expected = 1;
        return atomic_load(&wanted) && found->key_len == strlen(stuck_key) &&
               memcmp(found->key, stuck_key, found->key_len) == 0 && atomic_compare_exchange_strong(&wanted, &expected, 0);
}

/* All that is new, with the names that its lane's commit bears; waits for the answer if it is the first with names. */
static void commit_named(void *consumer, progress_t *its) {
        void *list = list_new(LANES);
        int first  = !atomic_load(&named);
        for (int lane = 0; lane < LANES; lane++) {
                if (!its->news[lane])
                        continue;
                its->news[lane]                  = 0;
                rd_kafka_topic_partition_t *said = list_add(list, topic, lane);
                said->offset                     = its->next[lane];
                if (lane != its->lane || (how == NACK && !first))
                        continue;
                char *names = calloc(1, NAMES);
                if (how == NACK)
                        snprintf(names, NAMES, "ack1;n:600000=%lld", (long long)its->stuck);
                else {
                        said->offset = its->stuck;
                        if (its->next[lane] > its->stuck + 1)
                                snprintf(names, NAMES, "ack1;a=%lld-%lld", (long long)its->stuck + 1,
                                         (long long)its->next[lane] - 1);
                        else
                                strcpy(names, "ack1;");
                }
                /* the list frees it */
                said->metadata      = names;
                said->metadata_size = strlen(names);
        }
        int err = commit(consumer, list, !first);
        if (first && err != 0)
                fail("the commit that names the stuck message", err2str(err));
        atomic_store(&named, 1);
        list_destroy(list);
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
        double next     = now() + commit_ms / 1e3;
        progress_t *its = calloc(1, sizeof(progress_t));
        its->lane = -1, its->stuck = -1;
        while (!atomic_load(&stop)) {
                ssize_t size = consume_batch_queue(queue, 100, found, BATCH);
                long good    = 0;
                for (ssize_t i = 0; i < size; i++) {
                        if (found[i]->err == 0) {
                                good++;
                                if (how != NOTHING) {
                                        if (found[i]->partition >= LANES)
                                                fail("lanes", "there are too many");
                                        its->next[found[i]->partition] = found[i]->offset + 1;
                                        its->news[found[i]->partition] = 1;
                                        if (gets_stuck(found[i]))
                                                its->lane = found[i]->partition, its->stuck = found[i]->offset, next = 0;
                                }
                        }
                        message_destroy(found[i]);
                }
                atomic_fetch_add(&counts[number], good);
                if (commit_ms && now() >= next) {
                        if (its->stuck >= 0)
                                commit_named(consumer, its);
                        else {
                                commit(consumer, NULL, 1);
                                memset(its->news, 0, sizeof(its->news));
                        }
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
        if (argc != 12 && argc != 14)
                fail("group_rdkafka", "expected eleven arguments, or thirteen");
        load(argv[1]);
        load_groups();
        address = argv[2], group = argv[3], topic = argv[4];
        int members = atoi(argv[5]);
        commit_ms   = atoi(argv[6]);
        double warmup = atof(argv[8]), seconds = atof(argv[9]), limit = atof(argv[11]);
        long records = atol(argv[7]), at_least = atol(argv[10]);
        if (argc == 14) {
                how       = strcmp(argv[12], "nack") == 0 ? NACK : HOLD;
                stuck_key = argv[13];
                if (how == HOLD && strcmp(argv[12], "hold") != 0)
                        fail("stuck", argv[12]);
        }
        if (members < 1 || members > MEMBERS)
                fail("members", argv[5]);
        pthread_t threads[MEMBERS];
        double created = now();
        for (long i = 0; i < members; i++)
                pthread_create(&threads[i], NULL, member, (void *)i);
        double first = 0, joined = 0, start = 0, end = 0, used = 0;
        long before = 0, sum = 0;
        int asked = 0;
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
                if (how != NOTHING && !asked && joined != 0 && t >= joined + warmup / 2) {
                        asked = 1;
                        atomic_store(&wanted, 1);
                }
                if (start == 0 && first != 0 && (joined != 0 ? t >= joined + warmup : t >= first + 2 * warmup + 10)) {
                        start  = t;
                        before = sum;
                        used   = cpu();
                }
                if (start != 0 && ((t >= start + seconds && sum - before >= at_least) || t >= start + limit))
                        end = t;
        }
        double spent = cpu() - used;
        /* what comes again is counted again, so this may find out less than there is to find */
        if (records != 0 && sum >= records)
                fail("records", "there were none left before the window ended");
        if (how != NOTHING && !atomic_load(&named))
                fail("stuck", "no message was");
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
