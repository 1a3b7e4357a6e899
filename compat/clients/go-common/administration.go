package compat

import (
	"slices"
	"time"
)

func init() {
	Add("create_and_describe_topic", createAndDescribe)
	Add("validate_only", func(c *Context) {
		topic := c.TopicName()
		Must(c.Admin().Create(TopicSpec{Name: topic, Partitions: 2, Replicas: 1, ValidateOnly: true}))
		Check(!slices.Contains(Try(c.Admin().Topics()), topic), "the topic was created")
	})
	Add("delete_topic", deleteTopic)
	Add("create_partitions", func(c *Context) {
		topic := c.Create(1)
		Must(c.Admin().AddPartitions(topic, 4))
		c.Until("four partitions", func() bool { return c.Describe(topic).Partitions == 4 })
		c.ProduceTo(topic, 3, Sample(10, 100))
		Same(len(c.Read(topic, 4, 10)), 10, "records")
	})
	Add("describe_configs", describeConfigs)
	Add("alter_configs", alterConfigs)
	Add("alter_configs_legacy", func(c *Context) {
		topic := c.Create(1, "retention.ms", "5000")
		Must(offered[Replacer](c).Replace(topic, map[string]string{"max.message.bytes": "2000"}))
		c.Until("the new set", func() bool {
			found := Try(c.Admin().TopicConfigs(topic))
			return found["max.message.bytes"].Value == "2000" && found["retention.ms"].Value == "604800000"
		})
	})
	Add("delete_records", deleteRecords)
	Add("list_offsets", listOffsets)
	Add("list_and_describe_groups", listAndDescribeGroups)
	Add("delete_group", func(c *Context) {
		topic, group := c.Create(1), c.Group()
		Must(c.Admin().SetCommit(group, topic, 0, Commit{Offset: 3}))
		Must(c.Admin().DeleteGroup(group))
		Check(!slices.Contains(Try(c.Admin().Groups()), group), "still listed")
	})
	Add("group_offsets", groupOffsets)
	Add("describe_cluster", func(c *Context) {
		found := Try(c.Admin().Cluster())
		Check(found.ID != "", "no cluster id")
		Same(found.Nodes[found.Controller], c.Bootstrap, "address of the controller")
	})
	Add("describe_log_dirs", func(c *Context) {
		topic := c.Create(1)
		c.Produce(topic, Sample(10, 100))
		size := Try(offered[Sizer](c).Size(topic))
		Check(size > 500 && size < 100_000, "size of the topic: %d", size)
	})
	Add("describe_producers", func(c *Context) {
		topic := c.Create(1)
		c.Produce(topic, Sample(10, 100), Producing{Idempotent: true})
		Same(Try(offered[ProducerDescriber](c).LastSequences(topic)), []int32{9}, "last sequences")
	})
	Add("describe_features", func(c *Context) {
		highest, features, err := offered[FeatureDescriber](c).Features()
		Must(err)
		Check(highest >= 13, "Fetch up to version %d: by topic id it begins with 13", highest)
		for name, versions := range features {
			Check(versions[0] <= versions[1], "versions of the feature %s: %v", name, versions)
		}
	})
}

func createAndDescribe(c *Context) {
	topic := c.TopicName()
	Must(c.Admin().Create(TopicSpec{
		Name: topic, Partitions: 5, Replicas: 1, Configs: map[string]string{"cleanup.policy": "compact"},
	}))
	found := c.Describe(topic)
	Same(found.Partitions, 5, "partitions")
	Same(found.InSync, 5, "replicas in sync")
	Same(Try(c.Admin().TopicConfigs(topic))["cleanup.policy"].Value, "compact", "config")
	Check(slices.Contains(Try(c.Admin().Topics()), topic), "not listed")
	defaults := c.TopicName()
	Must(c.Admin().Create(TopicSpec{Name: defaults, Partitions: -1, Replicas: -1}))
	Check(c.Describe(defaults).Partitions > 0, "no partitions by default")
	assigned := c.TopicName()
	Must(c.Admin().Create(TopicSpec{
		Name: assigned, Partitions: -1, Replicas: -1,
		Assignment: map[int32][]int32{0: {found.Leader}, 1: {found.Leader}},
	}))
	Same(c.Describe(assigned).Partitions, 2, "partitions by assignment")
}

func deleteTopic(c *Context) {
	topic := c.Create(1)
	c.Produce(topic, Sample(10, 100))
	old := c.Describe(topic)
	byID, ok := c.Admin().(IDDeleter)
	if ok {
		Must(byID.DeleteByID(old.ID))
	} else {
		Must(c.Admin().Delete(topic))
	}
	c.Until("the topic to go", func() bool { return !slices.Contains(Try(c.Admin().Topics()), topic) })
	Must(c.Admin().Create(TopicSpec{Name: topic, Partitions: 1, Replicas: 1}))
	again := c.Describe(topic)
	if old.ID != "" {
		Check(again.ID != old.ID, "the new topic has the old id")
	}
	c.Produce(topic, Sample(3, 100))
	Same(offsets(c.Read(topic, 1, 3)), span(0, 3), "offsets of the new topic")
	if ok {
		c.Fails(byID.DeleteByID(old.ID), UnknownTopicID)
	}
}

func describeConfigs(c *Context) {
	topic := c.Create(1, "retention.ms", "5000")
	found := Try(c.Admin().TopicConfigs(topic))
	Same(found["retention.ms"], Config{Value: "5000", Source: "DYNAMIC_TOPIC_CONFIG"}, "retention.ms")
	Check(found["cleanup.policy"].Default, "a default is called set")
	for _, name := range []string{
		"max.message.bytes", "segment.bytes", "compression.type", "min.insync.replicas", "retention.bytes",
		"message.timestamp.type",
	} {
		Check(found[name].Value != "", "%s is missing", name)
	}
	broker := Try(c.Admin().BrokerConfigs())
	for _, name := range []string{"num.partitions", "message.max.bytes", "auto.create.topics.enable"} {
		Check(broker[name].Value != "", "broker config %s is missing", name)
	}
}

func alterConfigs(c *Context) {
	topic := c.Create(1, "retention.ms", "5000")
	alterer := offered[Alterer](c)
	is := func(name, value string) {
		c.Until(name+"="+value, func() bool { return Try(c.Admin().TopicConfigs(topic))[name].Value == value })
	}
	Must(alterer.Alter(topic, "set", "max.message.bytes", "2000"))
	is("max.message.bytes", "2000")
	is("retention.ms", "5000")
	Must(alterer.Alter(topic, "delete", "retention.ms", ""))
	is("retention.ms", "604800000")
	Must(alterer.Alter(topic, "append", "cleanup.policy", "compact"))
	is("cleanup.policy", "delete,compact")
	Must(alterer.Alter(topic, "subtract", "cleanup.policy", "delete"))
	is("cleanup.policy", "compact")
}

func deleteRecords(c *Context) {
	topic := c.Create(1)
	deleter := offered[RecordDeleter](c)
	c.Produce(topic, Sample(100, 100), Producing{BatchBytes: 1000})
	Same(Try(deleter.DeleteRecords(topic, 0, 35)), int64(35), "low watermark")
	Same(c.Read(topic, 1, 65)[0].Offset, int64(35), "first offset")
	_, err := deleter.DeleteRecords(topic, 0, 101)
	c.Fails(err, OffsetOutOfRange)
	Same(Try(deleter.DeleteRecords(topic, 0, -1)), int64(100), "low watermark when emptied")
	Same(Try(c.Admin().Offset(topic, 0, Earliest)), int64(100), "beginning when emptied")
}

func listOffsets(c *Context) {
	topic := c.Create(1)
	start := time.UnixMilli(time.Now().UnixMilli()).Add(-10 * time.Minute)
	writer := c.producer()
	for _, seconds := range []int{0, 1, 5, 3, 4} {
		when := start.Add(time.Duration(seconds) * time.Second)
		Try(writer.Send(Record{Topic: topic, Value: []byte{1}, Time: when}))
	}
	for what, offset := range map[int64]int64{
		Earliest: 0, Latest: 5, MaxTimestamp: 2, start.UnixMilli() + 1500: 2, start.UnixMilli() + 1_000_000: -1,
	} {
		if what == MaxTimestamp && noMaxTimestamp(c) {
			continue
		}
		Same(Try(c.Admin().Offset(topic, 0, what)), offset, "offset of "+time.UnixMilli(what).String())
	}
}

// NoMaxTimestamp is an Admin whose client cannot ask for the highest timestamp.
type NoMaxTimestamp interface{ NoMaxTimestamp() }

func noMaxTimestamp(c *Context) bool {
	_, lacks := c.Admin().(NoMaxTimestamp)
	return lacks
}

func listAndDescribeGroups(c *Context) {
	topic, group := c.Create(2), c.Group()
	member := c.member(Membership{Group: group, Topics: []string{topic}, Assignor: "range", ClientID: "compat-client"})
	settle(c, []Member{member}, 2)
	Check(slices.Contains(Try(c.Admin().Groups()), group), "not listed")
	found := Try(c.Admin().DescribeGroup(group))
	Same(found.State, "Stable", "state")
	if found.Assignor != "" { // kafka-go does not tell
		Same(found.Assignor, "range", "assignor")
	}
	Same(found.Members, []GroupMember{{ClientID: "compat-client", Partitions: 2}}, "members")
	member.Close()
	c.Until("the group to be empty", func() bool { return Try(c.Admin().DescribeGroup(group)).State == "Empty" })
}

func groupOffsets(c *Context) {
	topic, group := c.Create(2), c.Group()
	is := func(expected map[int32]int64) {
		found := map[int32]int64{}
		for partition, one := range Try(c.Admin().Commits(group, topic)) {
			found[partition] = one.Offset
		}
		Same(found, expected, "offsets")
	}
	Must(c.Admin().SetCommit(group, topic, 0, Commit{Offset: 3}))
	is(map[int32]int64{0: 3})
	Must(c.Admin().SetCommit(group, topic, 0, Commit{Offset: 1}))
	Must(c.Admin().SetCommit(group, topic, 1, Commit{Offset: 7}))
	is(map[int32]int64{0: 1, 1: 7})
	Must(c.Admin().DeleteCommit(group, topic, 0))
	is(map[int32]int64{1: 7})
}
