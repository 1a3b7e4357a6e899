package compat

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func init() {
	Add("commit_and_resume", func(c *Context) {
		topic, group := c.Create(1), c.Group()
		c.Produce(topic, Sample(100, 100))
		first := c.member(Membership{Group: group, Topics: []string{topic}})
		Must(first.Commit(c.take(first, 30)[29]))
		first.Close()
		second := c.member(Membership{Group: group, Topics: []string{topic}})
		Same(offsets(c.take(second, 70)), span(30, 100), "offsets after resume")
	})
	Add("commit_metadata", func(c *Context) {
		topic, group := c.Create(1), c.Group()
		text := `käse {"a": [1, 2]} ` + strings.Repeat("x", 500)
		Must(c.Admin().SetCommit(group, topic, 0, Commit{Offset: 0, Metadata: text}))
		Same(Try(c.Admin().Commits(group, topic))[0].Metadata, text, "metadata")
	})
	Add("auto_commit", func(c *Context) {
		topic, group := c.Create(1), c.Group()
		c.Produce(topic, Sample(10, 100))
		member := c.member(Membership{Group: group, Topics: []string{topic}, AutoCommit: true})
		c.take(member, 10)
		c.Until("the automatic commit", func() bool {
			Try(member.Poll())
			return Try(c.Admin().Commits(group, topic))[0].Offset == 10
		})
	})
	Add("rebalance_eager", func(c *Context) { rebalance(c, "range") })
	Add("rebalance_cooperative", func(c *Context) { rebalance(c, "cooperative") })
	Add("static_membership", staticMembership)
	Add("member_timeout", memberTimeout)
	Add("new_partitions_in_group", newPartitions)
}

func (c *Context) member(how Membership) Member {
	if how.Session == 0 {
		how.Session = 10 * time.Second
	}
	return c.Library.Member(c, how)
}

// settle polls until the members have so many partitions, all of them apart. The records come back.
func settle(c *Context, members []Member, counts ...int) []Record {
	var records []Record
	c.Until(fmt.Sprintf("shares of %v", counts), func() bool {
		all, found, sum := map[int32]bool{}, []int{}, 0
		for _, one := range members {
			records = append(records, Try(one.Poll())...)
			mine := one.Partitions()
			found = append(found, len(mine))
			for _, partition := range mine {
				all[partition] = true
			}
		}
		for _, count := range counts {
			sum += count
		}
		slices.Sort(found)
		return len(all) == sum && slices.Equal(found, slices.Sorted(slices.Values(counts)))
	})
	return records
}

func rebalance(c *Context, assignor string) {
	topic, group := c.Create(4), c.Group()
	c.Produce(topic, Sample(200, 100))
	how := Membership{Group: group, Topics: []string{topic}, Assignor: assignor}
	seen := map[int]bool{}
	see := func(records []Record) {
		for _, one := range records {
			seen[Number(one)] = true
		}
	}
	first := c.member(how)
	see(settle(c, []Member{first}, 4))
	before := first.Changes()
	second := c.member(how)
	see(settle(c, []Member{first, second}, 2, 2))
	if found := Try(c.Admin().DescribeGroup(group)).Assignor; found != "" { // kafka-go does not tell
		Same(found, map[string]string{"range": "range", "cooperative": "cooperative-sticky"}[assignor], "assignor")
	}
	if assignor == "cooperative" {
		Same(first.Changes()-before, 2, "partitions that the first lost or got when the second came")
	}
	first.Close()
	see(settle(c, []Member{second}, 4))
	c.Until("every record", func() bool { see(Try(second.Poll())); return len(seen) == 200 })
}

func staticMembership(c *Context) {
	topic, group := c.Create(4), c.Group()
	how := func(instance string) Membership {
		return Membership{Group: group, Topics: []string{topic}, Instance: instance, Session: 20 * time.Second}
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
	one.Close()
	again.Close()
	// A static member stays when it closes; the administrator removes it.
	Same(len(Try(c.Admin().DescribeGroup(group)).Members), 2, "members after both closed")
	Must(offered[MemberRemover](c).RemoveMember(group, "two"))
	Same(len(Try(c.Admin().DescribeGroup(group)).Members), 1, "members after one was removed")
}

func memberTimeout(c *Context) {
	topic, group := c.Create(2), c.Group()
	cable := &Cable{}
	dead := c.member(Membership{Group: group, Topics: []string{topic}, Session: 6 * time.Second, Cable: cable})
	settle(c, []Member{dead}, 2)
	cable.Cut()
	start := time.Now()
	heir := c.member(Membership{Group: group, Topics: []string{topic}})
	settle(c, []Member{heir}, 2)
	Check(time.Since(start) > 3*time.Second, "taken over after %v, long before the session's end", time.Since(start))
}

func newPartitions(c *Context) {
	topic := c.Create(1)
	member := c.member(Membership{Group: c.Group(), Topics: []string{topic}, Refresh: 500 * time.Millisecond})
	settle(c, []Member{member}, 1)
	Must(c.Admin().AddPartitions(topic, 3))
	settle(c, []Member{member}, 3)
	c.ProduceTo(topic, 2, Sample(5, 100))
	for _, one := range c.take(member, 5) {
		Same(one.Partition, int32(2), "partition")
	}
}
