package main

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"magnetar/compat"
)

// shareTopics: where share groups begin, what becomes of their topics, configs and administration.
func shareTopics() {
	compat.Add("share_reset_earliest", func(c *compat.Context) {
		topic, group := written(c, 10), shareGroup(c, "share.auto.offset.reset", "earliest")
		compat.Same(offsets(join(c, group, []string{topic}).take(10, kgo.AckAccept)), span(0, 10), "offsets")
	})
	compat.Add("share_reset_latest", func(c *compat.Context) {
		topic, group := written(c, 10), shareGroup(c, "share.auto.offset.reset", "latest")
		member, found := join(c, group, []string{topic}), []*kgo.Record{}
		c.Until("records", func() bool { // it joins at some moment: what is produced before is not for it
			write(c, topic, "", compat.Sample(1, 100)...)
			found = member.poll()
			return len(found) > 0
		})
		compat.Check(found[0].Offset >= 10, "offset %d", found[0].Offset)
		member.mark(kgo.AckAccept, found...)
	})
	compat.Add("share_reset_by_duration", func(c *compat.Context) {
		topic, group := c.Create(1), shareGroup(c, "share.auto.offset.reset", "by_duration:PT1H")
		for _, age := range []time.Duration{3 * time.Hour, 2 * time.Hour, time.Hour / 2, 0} {
			write(c, topic, "", compat.Record{Partition: 0, Value: []byte("v"), Time: time.Now().Add(-age)})
		}
		found := join(c, group, []string{topic}).take(2, kgo.AckAccept)
		compat.Same(offsets(found), []int64{2, 3}, "offsets of the last hour")
	})
	compat.Add("share_read_committed", func(c *compat.Context) {
		topic, group := written(c, 10), shareGroup(c, "share.isolation.level", "read_committed")
		member := join(c, group, []string{topic})
		compat.Same(offsets(member.take(10, kgo.AckAccept)), span(0, 10), "offsets")
		member.nothingElse(topic)
	})
	compat.Add("share_topic_made_later", func(c *compat.Context) {
		topic, group := c.TopicName(), shareGroup(c)
		member := join(c, group, []string{topic})
		for range 5 {
			some, _ := member.tryPoll() // franz-go tells that there is no such topic
			compat.Same(len(some), 0, "records")
		}
		compat.Must(c.Admin().Create(compat.TopicSpec{Name: topic, Partitions: 2, Replicas: 1}))
		c.Describe(topic)
		c.ProduceTo(topic, 1, compat.Sample(10, 100))
		found := []*kgo.Record{}
		c.Until("the records", func() bool {
			some, _ := member.tryPoll()
			found = append(found, some...)
			return len(found) == 10
		})
		compat.Same(offsets(found), span(0, 10), "offsets")
	})
	compat.Add("share_topic_recreated", func(c *compat.Context) {
		topic, group := written(c, 10), shareGroup(c)
		member := join(c, group, []string{topic})
		member.take(10, kgo.AckAccept)
		compat.Must(c.Admin().Delete(topic))
		c.Until("the topic to go", func() bool { return !slices.Contains(compat.Try(c.Admin().Topics()), topic) })
		compat.Must(c.Admin().Create(compat.TopicSpec{Name: topic, Partitions: 1, Replicas: 1}))
		c.Describe(topic)
		write(c, topic, "", compat.Sample(3, 100)...)
		// franz-go does not go on with another topic of the same name by itself.
		member.client.PurgeTopicsFromConsuming(topic)
		member.client.AddConsumeTopics(topic)
		found := []*kgo.Record{}
		c.Until("the new topic's records", func() bool {
			some, _ := member.tryPoll()
			found = append(found, some...)
			return len(found) == 3
		})
		compat.Same(offsets(found), span(0, 3), "offsets in the new topic")
	})
	compat.Add("share_partitions_added", func(c *compat.Context) {
		topic, group := written(c, 5), shareGroup(c)
		member := join(c, group, []string{topic})
		member.take(5, kgo.AckAccept)
		compat.Must(c.Admin().AddPartitions(topic, 3))
		c.Until("three partitions", func() bool { return c.Describe(topic).Partitions == 3 })
		c.ProduceTo(topic, 2, compat.Sample(5, 100))
		for _, one := range member.take(5, kgo.AckAccept) {
			compat.Same(one.Partition, int32(2), "partition")
		}
	})
	compat.Add("share_group_configs", func(c *compat.Context) {
		group := c.Group()
		found := groupConfigs(c, group)
		for name, value := range map[string]string{
			"share.auto.offset.reset": "latest", "share.isolation.level": "read_uncommitted",
			"share.record.lock.duration.ms": "30000", "share.delivery.count.limit": "5",
			"share.partition.max.record.locks": "2000", "share.session.timeout.ms": "45000",
			"share.renew.acknowledge.enable": "true",
		} {
			compat.Check(found[name].Value != nil, "%s is missing", name)
			compat.Same(*found[name].Value, value, name)
		}
		configure(c, group, "share.delivery.count.limit", "7", "share.isolation.level", "read_committed")
		code, words := alter(c, group, "share.delivery.count.limit", nil)
		compat.Check(code == 0, "deleting a config: %d %s", code, words)
		c.Until("the default", func() bool {
			found = groupConfigs(c, group)
			return *found["share.delivery.count.limit"].Value == "5"
		})
		compat.Same(*found["share.isolation.level"].Value, "read_committed", "the other config")
	})
	compat.Add("share_describe_and_list", func(c *compat.Context) {
		topic, group := c.Create(2), shareGroup(c)
		one, two := join(c, group, []string{topic}, kgo.ClientID("one")), join(c, group, []string{topic}, kgo.ClientID("two"))
		c.Until("two members that have the partitions", func() bool {
			one.poll()
			two.poll()
			found := described(c, group)
			given := found.AssignedPartitions()[topic]
			return found.GroupState == "Stable" && len(found.Members) == 2 && len(given) == 2
		})
		clients := map[string]bool{}
		for _, member := range described(c, group).Members {
			clients[member.ClientID] = true
			compat.Check(member.MemberEpoch > 0, "epoch %d", member.MemberEpoch)
			compat.Same(member.SubscribedTopicNames, []string{topic}, "subscription")
		}
		compat.Same(clients, map[string]bool{"one": true, "two": true}, "client ids")
		listed := func(state string) bool {
			_, found := compat.Try(shareAdmin(c).ListGroupsByType(c.Go(), []string{"share"}, state))[group]
			return found
		}
		compat.Check(listed("Stable") && !listed("Empty"), "not listed as Stable only")
		one.leave()
		two.leave()
		empty(c, group)
		compat.Check(listed("Empty"), "not listed as Empty")
		none := c.Group()
		c.Fails(compat.Try(shareAdmin(c).DescribeShareGroups(c.Go(), none))[none].Err, compat.GroupIDNotFound)
	})
	compat.Add("share_group_offsets", func(c *compat.Context) {
		topic, group := c.Create(2), shareGroup(c)
		c.ProduceTo(topic, 0, compat.Sample(10, 100))
		member := join(c, group, []string{topic})
		member.take(10, kgo.AckAccept)
		c.ProduceTo(topic, 0, compat.Sample(5, 100))
		c.Until("the lag", func() bool { // Kafka's start offset comes later
			found, ok := startOffsets(c, group).Lookup(topic, 0)
			return ok && found.Lag == 5
		})
		to := kadm.Offsets{}
		to.AddOffset(topic, 0, 3, -1)
		_, err := shareAdmin(c).AlterShareGroupOffsets(c.Go(), group, to)
		c.Fails(err, compat.GroupNotEmpty)
		member.leave()
		empty(c, group)
		compat.Must(compat.Try(shareAdmin(c).AlterShareGroupOffsets(c.Go(), group, to)).Error())
		found, _ := startOffsets(c, group).Lookup(topic, 0)
		compat.Same(found.StartOffset, int64(3), "altered offset")
		again := join(c, group, []string{topic})
		compat.Same(offsets(again.take(12, kgo.AckAccept)), span(3, 15), "offsets from there")
		again.leave()
		empty(c, group)
		compat.Must(compat.Try(shareAdmin(c).DeleteShareGroupOffsets(c.Go(), group, topic)).Error())
		last := join(c, group, []string{topic})
		compat.Same(offsets(last.take(15, kgo.AckAccept)), span(0, 15), "from the beginning")
	})
	compat.Add("share_delete_group", func(c *compat.Context) {
		topic, group := written(c, 3), shareGroup(c)
		member := join(c, group, []string{topic})
		member.take(3, kgo.AckAccept)
		c.Fails(c.Admin().DeleteGroup(group), compat.GroupNotEmpty)
		member.leave()
		empty(c, group)
		compat.Must(c.Admin().DeleteGroup(group))
		c.Fails(compat.Try(shareAdmin(c).DescribeShareGroups(c.Go(), group))[group].Err, compat.GroupIDNotFound)
		again := join(c, group, []string{topic})
		compat.Same(offsets(again.take(3, kgo.AckAccept)), span(0, 3), "from the beginning")
	})
}

func described(c *compat.Context, group string) kadm.DescribedShareGroup {
	found := compat.Try(shareAdmin(c).DescribeShareGroups(c.Go(), group))[group]
	compat.Must(found.Err)
	return found
}

func empty(c *compat.Context, group string) {
	c.Until("the group to be empty", func() bool { return described(c, group).GroupState == "Empty" })
}

func startOffsets(c *compat.Context, group string) kadm.ShareOffsets {
	found := compat.Try(shareAdmin(c).DescribeShareGroupOffsets(c.Go(), group))[group]
	compat.Must(found.Err)
	return found.Offsets
}
