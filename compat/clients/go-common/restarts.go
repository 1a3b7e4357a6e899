package compat

func init() {
	Add("restart_resume_group", func(c *Context) {
		topic, group, sent := c.Create(1), c.Group(), Sample(100, 100)
		c.Produce(topic, sent, Producing{Codec: "zstd"})
		first := c.member(Membership{Group: group, Topics: []string{topic}})
		Must(first.Commit(c.take(first, 40)[39]))
		first.Close()
		c.Restart()
		second := c.member(Membership{Group: group, Topics: []string{topic}})
		Same(offsets(c.take(second, 60)), span(40, 100), "offsets after the restart")
		SameRecords(c.Read(topic, 1, 100), sent)
	})
	Add("restart_live_clients", func(c *Context) {
		topic, sent := c.Create(2), Sample(100, 100)
		writer := c.producer()
		reader := c.member(Membership{Group: c.Group(), Topics: []string{topic}})
		seen := map[int]bool{}
		var last Record
		poll := func() int {
			for _, one := range Try(reader.Poll()) {
				seen[Number(one)], last = true, one
			}
			return len(seen)
		}
		for _, one := range To(topic, Any, sent[:50]) {
			Try(writer.Send(one))
		}
		c.Until("the records before", func() bool { return poll() == 50 })
		Must(reader.Commit(last))
		c.Restart()
		for _, one := range To(topic, Any, sent[50:]) {
			Try(writer.Send(one))
		}
		c.Until("the records after", func() bool { return poll() == 100 })
	})
	Add("restart_idempotent", func(c *Context) {
		topic, sent := c.Create(1), Sample(200, 100)
		writer := c.producer(Producing{Idempotent: true})
		Try(writer.Send(To(topic, Any, sent[:100])...))
		c.Restart()
		Try(writer.Send(To(topic, Any, sent[100:])...))
		SameRecords(c.Read(topic, 1, 200), sent)
	})
	Add("restart_topic_settings", func(c *Context) {
		topic := c.Create(3, "retention.ms", "123456789")
		before := c.Describe(topic)
		c.Restart()
		c.admin = nil
		after := c.Describe(topic)
		Same(after.ID, before.ID, "topic id")
		Same(after.Partitions, 3, "partitions")
		Same(Try(c.Admin().TopicConfigs(topic))["retention.ms"].Value, "123456789", "config")
	})
}
