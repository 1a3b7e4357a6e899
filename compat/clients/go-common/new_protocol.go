package compat

import (
	"slices"
	"time"
)

// NewProtocolCases are those of groups of the new protocol (KIP-848), for libraries that speak it.
func NewProtocolCases() {
	Add("protocol_sharing", protocolSharing)
	Add("protocol_static", protocolStatic)
	Add("protocol_new_partitions", func(c *Context) {
		topic := c.Create(1)
		how := Membership{Group: c.Group(), Topics: []string{topic}, Refresh: 500 * time.Millisecond, NewProtocol: true}
		member := c.member(how)
		settle(c, []Member{member}, 1)
		Must(c.Admin().AddPartitions(topic, 3))
		settle(c, []Member{member}, 3)
	})
	Add("protocol_in_turns", func(c *Context) {
		topic, group := c.Create(1), c.Group()
		c.Produce(topic, Sample(90, 100))
		for turn, new := range []bool{false, true, false} {
			one := c.member(Membership{Group: group, Topics: []string{topic}, NewProtocol: new})
			first := int64(30 * turn)
			got := c.take(one, 90-int(first))
			Same(offsets(got), span(first, 90), "offsets")
			Must(one.Commit(got[29]))
			one.Close()
		}
	})
	Add("restart_protocol", func(c *Context) {
		topic, group := c.Create(4), c.Group()
		how := Membership{Group: group, Topics: []string{topic}, NewProtocol: true}
		members := []Member{c.member(how), c.member(how)}
		settle(c, members, 2, 2)
		changes := members[0].Changes() + members[1].Changes()
		c.Restart()
		c.Produce(topic, Sample(50, 100))
		seen := map[int]bool{}
		c.Until("the records after the restart", func() bool {
			for _, one := range members {
				for _, record := range Try(one.Poll()) {
					seen[Number(record)] = true
				}
			}
			return len(seen) == 50
		})
		Same(members[0].Changes()+members[1].Changes(), changes, "rebalances")
	})
}

func protocolSharing(c *Context) {
	topic, group := c.Create(4), c.Group()
	c.Produce(topic, Sample(200, 100))
	how := Membership{Group: group, Topics: []string{topic}, AutoCommit: true, NewProtocol: true}
	first := c.member(how)
	seen := map[int]bool{}
	see := func(records []Record) {
		for _, one := range records {
			seen[Number(one)] = true
		}
	}
	see(settle(c, []Member{first}, 4))
	second := c.member(how)
	see(settle(c, []Member{first, second}, 2, 2))
	c.Until("every record, and the offsets behind them", func() bool {
		see(Try(first.Poll()))
		see(Try(second.Poll()))
		sum := int64(0)
		for _, one := range Try(c.Admin().Commits(group, topic)) {
			sum += one.Offset
		}
		return len(seen) == 200 && sum == 200
	})
	first.Close()
	settle(c, []Member{second}, 4)
}

func protocolStatic(c *Context) {
	topic, group := c.Create(4), c.Group()
	how := func(instance string) Membership {
		return Membership{Group: group, Topics: []string{topic}, Instance: instance, NewProtocol: true}
	}
	one, two := c.member(how("one")), c.member(how("two"))
	settle(c, []Member{one, two}, 2, 2)
	changes, share := one.Changes(), two.Partitions()
	two.Close()
	again := c.member(how("two"))
	settle(c, []Member{one, again}, 2, 2)
	back := again.Partitions()
	slices.Sort(share)
	slices.Sort(back)
	Same(back, share, "the returning member's partitions")
	Same(one.Changes(), changes, "rebalances of the other member")
}
