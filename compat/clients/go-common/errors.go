package compat

import (
	"slices"
	"strings"
	"time"
)

func init() {
	Add("error_unknown_topic", func(c *Context) {
		topic := c.TopicName()
		_, err := c.Admin().Describe(topic)
		c.Fails(err, UnknownTopicOrPartition)
		c.Fails(c.Admin().Delete(topic), UnknownTopicOrPartition)
		_, err = c.Admin().TopicConfigs(topic)
		c.Fails(err, UnknownTopicOrPartition)
		Check(!slices.Contains(Try(c.Admin().Topics()), topic), "the topic was created")
	})
	Add("error_topic_exists", func(c *Context) {
		c.Fails(c.Admin().Create(TopicSpec{Name: c.Create(1), Partitions: 1, Replicas: 1}), TopicExists)
	})
	Add("error_invalid_topic_name", func(c *Context) {
		for _, name := range []string{"not a name!", strings.Repeat("x", 250), ".."} {
			c.Fails(c.Admin().Create(TopicSpec{Name: name, Partitions: 1, Replicas: 1}), InvalidTopic)
		}
	})
	Add("error_invalid_partitions", func(c *Context) {
		c.Fails(c.Admin().Create(TopicSpec{Name: c.TopicName(), Partitions: 0, Replicas: 1}), InvalidPartitions)
		topic := c.Create(3)
		for _, count := range []int{2, 3} {
			c.Fails(c.Admin().AddPartitions(topic, count), InvalidPartitions)
		}
	})
	Add("error_invalid_replication", func(c *Context) {
		err := c.Admin().Create(TopicSpec{Name: c.TopicName(), Partitions: 1, Replicas: 3})
		c.Fails(err, InvalidReplicationFactor)
	})
	Add("error_bad_config_value", badConfigValue)
	Add("error_message_too_large", func(c *Context) {
		topic := c.Create(1, "max.message.bytes", "2000")
		_, err := c.producer().Send(To(topic, 0, Sample(1, 10_000))...)
		c.Fails(err, MessageTooLarge)
		c.Produce(topic, Sample(1, 1000))
	})
	Add("error_offset_out_of_range", func(c *Context) {
		topic := c.Create(1)
		c.Produce(topic, Sample(10, 100))
		c.Fails(outOfRange(c, topic), OffsetOutOfRange)
	})
	Add("error_no_key_on_compacted", func(c *Context) {
		topic := c.Create(1, "cleanup.policy", "compact")
		_, err := c.producer().Send(Record{Topic: topic, Value: []byte("no key")})
		c.Fails(err, InvalidRecord)
	})
	Add("error_timestamp_out_of_bounds", func(c *Context) {
		topic := c.Create(1, "message.timestamp.after.max.ms", "60000")
		_, err := c.producer().Send(Record{Topic: topic, Value: []byte{1}, Time: time.Now().Add(time.Hour)})
		c.Fails(err, InvalidTimestamp)
	})
	Add("error_unknown_group", func(c *Context) {
		group := c.Group()
		c.Fails(c.Admin().DeleteGroup(group), GroupIDNotFound)
		found, err := c.Admin().DescribeGroup(group)
		if err == nil { // before version 6 of DescribeGroups
			Same(found.State, "Dead", "state")
			return
		}
		c.Fails(err, GroupIDNotFound)
	})
	Add("error_group_not_empty", func(c *Context) {
		topic, group := c.Create(1), c.Group()
		settle(c, []Member{c.member(Membership{Group: group, Topics: []string{topic}})}, 1)
		c.Fails(c.Admin().DeleteGroup(group), GroupNotEmpty)
		c.Fails(c.Admin().DeleteCommit(group, topic, 0), GroupSubscribed)
	})
	Add("error_unknown_member", func(c *Context) {
		topic, group := c.Create(1), c.Group()
		settle(c, []Member{c.member(Membership{Group: group, Topics: []string{topic}})}, 1)
		// A commit from outside (no member id, no generation) while the group has members.
		c.Fails(c.Admin().SetCommit(group, topic, 0, Commit{Offset: 1}), UnknownMember)
	})
	Add("error_fenced_instance", func(c *Context) {
		topic, group := c.Create(1), c.Group()
		how := Membership{Group: group, Topics: []string{topic}, Instance: "same"}
		first := c.member(how)
		settle(c, []Member{first}, 1)
		second := c.member(how)
		c.Fails(untilError(c, first, second), FencedInstance)
	})
	Add("error_inconsistent_protocol", func(c *Context) {
		topic, group := c.Create(1), c.Group()
		settle(c, []Member{c.member(Membership{Group: group, Topics: []string{topic}, Assignor: "range"})}, 1)
		other := c.member(Membership{Group: group, Topics: []string{topic}, Assignor: "roundrobin"})
		c.Fails(untilError(c, other), InconsistentProtocol)
	})
}

// untilError polls the members until the first of them tells an error.
func untilError(c *Context, members ...Member) error {
	var found error
	c.Until("the error", func() bool {
		for n, one := range members {
			_, err := one.Poll()
			if n == 0 && err != nil {
				found = err
			}
		}
		return found != nil
	})
	return found
}

func outOfRange(c *Context, topic string) (found error) {
	reader := c.reader(topic, 1, Reading{From: 1000, Fixed: true})
	c.Until("the error", func() bool {
		records, err := reader.Poll()
		Same(len(records), 0, "records beyond the end")
		found = err
		return found != nil
	})
	return found
}

func badConfigValue(c *Context) {
	for name, value := range map[string]string{
		"retention.ms": "soon", "no.such.config": "1", "cleanup.policy": "shred",
	} {
		words := c.Fails(c.Admin().Create(TopicSpec{
			Name: c.TopicName(), Partitions: 1, Replicas: 1, Configs: map[string]string{name: value},
		}), InvalidConfig)
		Check(strings.Contains(words, name), "not named: %s", words)
	}
}
