/*
 * One member of a share group with librdkafka's ShareConsumer: accepts each record by itself, prints what it saw as JSON.
 *
 *   share_rdkafka LIBRARY ADDRESS GROUP TOPIC PARTITIONS RECORDS WARMUP SECONDS AT_LEAST LIMIT RELEASE_EVERY
 *
 * LIBRARY is a librdkafka, see rdkafka.h. The window begins when the warm-up is over, or a third is read, and ends with
 * SECONDS and AT_LEAST records, or after LIMIT seconds. RELEASE_EVERY n releases the first delivery of each n-th record. A
 * record that comes again after it was accepted is an error.
 */
#include "rdkafka.h"

enum { ACCEPT = 1, RELEASE = 2 };

static void *(*consumer_new)(void *, char *, size_t);
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

static const char *refused;

static void load_shares(void) {
        consumer_new     = find("rd_kafka_share_consumer_new");
        subscribe        = find("rd_kafka_share_subscribe");
        poll_            = find("rd_kafka_share_poll");
        count_of         = find("rd_kafka_messages_count");
        message_at       = find("rd_kafka_messages_get");
        messages_destroy = find("rd_kafka_messages_destroy");
        acknowledge      = find("rd_kafka_share_acknowledge_type");
        delivery_count   = find("rd_kafka_message_delivery_count");
        error_string     = find("rd_kafka_error_string");
        close_           = find("rd_kafka_share_consumer_close");
        set_callback     = find("rd_kafka_share_set_acknowledgement_commit_cb");
}

static void answered(void *consumer, void *partitions, int err, void *opaque) {
        if (err != 0 && refused == NULL)
                refused = err2str(err);
}

int main(int argc, char **argv) {
        if (argc != 12)
                fail("share_rdkafka", "expected eleven arguments");
        load(argv[1]);
        load_shares();
        const char *address = argv[2], *group = argv[3], *topic = argv[4];
        long partitions = atol(argv[5]), records = atol(argv[6]), at_least = atol(argv[9]), every = atol(argv[11]);
        double warmup = atof(argv[7]), seconds = atof(argv[8]), limit = atof(argv[10]);

        char text[512];
        const char *settings[] = {"bootstrap.servers", address, "group.id", group,
                                  "share.acknowledgement.mode", "explicit"};
        void *consumer         = consumer_new(configured(settings, 6), text, sizeof(text));
        if (consumer == NULL)
                fail("ShareConsumer", text);
        set_callback(consumer, answered, NULL);
        if (subscribe(consumer, listed(topic)) != 0)
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
