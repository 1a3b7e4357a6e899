package main

import (
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"magnetar/compat"
)

type admin struct {
	c      *compat.Context
	client *kafka.Client
}

// NoMaxTimestamp: its ListOffsets has versions up to 5.
func (admin) NoMaxTimestamp() {}

func client(c *compat.Context) *kafka.Client { return c.Admin().(*admin).client }

func (library) Admin(c *compat.Context) compat.Admin {
	return &admin{c, &kafka.Client{Addr: kafka.TCP(c.Bootstrap), Transport: transport(c)}}
}

// first gives the first error of all.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *admin) Create(spec compat.TopicSpec) error {
	topic := kafka.TopicConfig{
		Topic: spec.Name, NumPartitions: int(spec.Partitions), ReplicationFactor: int(spec.Replicas),
	}
	for name, value := range spec.Configs {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	for partition, nodes := range spec.Assignment {
		one := kafka.ReplicaAssignment{Partition: int(partition)}
		for _, node := range nodes {
			one.Replicas = append(one.Replicas, int(node))
		}
		topic.ReplicaAssignments = append(topic.ReplicaAssignments, one)
	}
	if internal(spec.Name) {
		return a.createInternal(topic)
	}
	within := a.c.Go()
	if spec.ValidateOnly {
		within = a.c.Within(3 * time.Second) // the client waits for the topic to appear for as long as it may
	}
	done, err := a.client.CreateTopics(within, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{topic}, ValidateOnly: spec.ValidateOnly,
	})
	if err != nil {
		return err
	}
	return done.Errors[spec.Name]
}

func (a *admin) Topics() ([]string, error) {
	found, err := a.client.Metadata(a.c.Go(), &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, one := range found.Topics {
		names = append(names, one.Name)
	}
	return names, nil
}

func (a *admin) Describe(topic string) (compat.Topic, error) {
	if internal(topic) {
		return a.describeInternal(topic)
	}
	all, err := a.client.Metadata(a.c.Go(), &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return compat.Topic{}, err
	}
	found := compat.Topic{Partitions: len(all.Topics[0].Partitions)}
	for _, partition := range all.Topics[0].Partitions {
		found.Leader = int32(partition.Leader.ID)
		found.InSync += len(partition.Isr)
		if partition.Error != nil {
			return found, partition.Error
		}
	}
	return found, all.Topics[0].Error
}

func (a *admin) Delete(topic string) error {
	done, err := a.client.DeleteTopics(a.c.Go(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return done.Errors[topic]
}

func (a *admin) AddPartitions(topic string, count int) error {
	done, err := a.client.CreatePartitions(a.c.Go(), &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(count)}},
	})
	if err != nil {
		return err
	}
	return done.Errors[topic]
}

func (a *admin) configs(kind kafka.ResourceType, name string) (map[string]compat.Config, error) {
	found, err := a.client.DescribeConfigs(a.c.Go(), &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kind, ResourceName: name}},
	})
	if err != nil {
		return nil, err
	}
	const dynamicTopic, byDefault = 1, 5
	all := map[string]compat.Config{}
	for _, one := range found.Resources[0].ConfigEntries {
		config := compat.Config{Value: one.ConfigValue, Default: one.ConfigSource == byDefault}
		if one.ConfigSource == dynamicTopic {
			config.Source = "DYNAMIC_TOPIC_CONFIG"
		}
		all[one.ConfigName] = config
	}
	return all, found.Resources[0].Error
}

func (a *admin) TopicConfigs(topic string) (map[string]compat.Config, error) {
	return a.configs(kafka.ResourceTypeTopic, topic)
}

func (a *admin) BrokerConfigs() (map[string]compat.Config, error) {
	found, err := a.client.Metadata(a.c.Go(), &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	return a.configs(kafka.ResourceTypeBroker, strconv.Itoa(found.Brokers[0].ID))
}

var operations = map[string]kafka.ConfigOperation{
	"set": kafka.ConfigOperationSet, "delete": kafka.ConfigOperationDelete,
	"append": kafka.ConfigOperationAppend, "subtract": kafka.ConfigOperationSubtract,
}

func (a *admin) Alter(topic, operation, name, value string) error {
	one := kafka.IncrementalAlterConfigsRequestConfig{
		Name: name, Value: value, ConfigOperation: operations[operation],
	}
	done, err := a.client.IncrementalAlterConfigs(a.c.Go(), &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{one},
		}},
	})
	if err != nil {
		return err
	}
	return done.Resources[0].Error
}

func (a *admin) Replace(topic string, configs map[string]string) error {
	resource := kafka.AlterConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}
	for name, value := range configs {
		resource.Configs = append(resource.Configs, kafka.AlterConfigRequestConfig{Name: name, Value: value})
	}
	done, err := a.client.AlterConfigs(a.c.Go(), &kafka.AlterConfigsRequest{
		Resources: []kafka.AlterConfigRequestResource{resource},
	})
	if err != nil {
		return err
	}
	for _, one := range done.Errors {
		if one != nil {
			return one
		}
	}
	return nil
}

func (a *admin) Offset(topic string, partition int32, when int64) (int64, error) {
	asked := kafka.OffsetRequest{Partition: int(partition), Timestamp: when}
	found, err := a.client.ListOffsets(a.c.Go(), &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: {asked}},
	})
	if err != nil {
		return 0, err
	}
	one := found.Topics[topic][0]
	switch when {
	case compat.Earliest:
		return one.FirstOffset, one.Error
	case compat.Latest:
		return one.LastOffset, one.Error
	}
	for offset := range one.Offsets {
		return offset, one.Error
	}
	return -1, one.Error
}

func (a *admin) Groups() ([]string, error) {
	found, err := a.client.ListGroups(a.c.Go(), &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, one := range found.Groups {
		names = append(names, one.GroupID)
	}
	return names, found.Error
}

func (a *admin) DescribeGroup(group string) (found compat.Group, err error) {
	err = again(a.c, func() error { found, err = a.describeGroup(group); return err })
	return found, err
}

func (a *admin) describeGroup(group string) (compat.Group, error) {
	all, err := a.client.DescribeGroups(a.c.Go(), &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return compat.Group{}, err
	}
	found := compat.Group{State: all.Groups[0].GroupState}
	for _, member := range all.Groups[0].Members {
		entry := compat.GroupMember{ClientID: member.ClientID}
		for _, topic := range member.MemberAssignments.Topics {
			entry.Partitions += len(topic.Partitions)
		}
		found.Members = append(found.Members, entry)
	}
	return found, all.Groups[0].Error
}

func (a *admin) DeleteGroup(group string) error {
	return again(a.c, func() error { return a.deleteGroup(group) })
}

func (a *admin) deleteGroup(group string) error {
	done, err := a.client.DeleteGroups(a.c.Go(), &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return done.Errors[group]
}

func (a *admin) Commits(group, topic string) (found map[int32]compat.Commit, err error) {
	err = again(a.c, func() error { found, err = a.commits(group, topic); return err })
	return found, err
}

func (a *admin) commits(group, topic string) (map[int32]compat.Commit, error) {
	found, err := a.client.OffsetFetch(a.c.Go(), &kafka.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{topic: {0, 1, 2, 3, 4, 5, 6, 7}},
	})
	if err != nil {
		return nil, err
	}
	all := map[int32]compat.Commit{}
	for _, one := range found.Topics[topic] {
		if one.CommittedOffset >= 0 {
			all[int32(one.Partition)] = compat.Commit{Offset: one.CommittedOffset, Metadata: one.Metadata}
		}
	}
	return all, found.Error
}

func (a *admin) SetCommit(group, topic string, partition int32, commit compat.Commit) error {
	return again(a.c, func() error { return a.setCommit(group, topic, partition, commit) })
}

func (a *admin) setCommit(group, topic string, partition int32, commit compat.Commit) error {
	one := kafka.OffsetCommit{Partition: int(partition), Offset: commit.Offset, Metadata: commit.Metadata}
	done, err := a.client.OffsetCommit(a.c.Go(), &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: {one}},
	})
	if err != nil {
		return err
	}
	return done.Topics[topic][0].Error
}

func (a *admin) DeleteCommit(group, topic string, partition int32) error {
	return again(a.c, func() error { return a.deleteCommit(group, topic, partition) })
}

func (a *admin) deleteCommit(group, topic string, partition int32) error {
	done, err := a.client.OffsetDelete(a.c.Go(), &kafka.OffsetDeleteRequest{
		GroupID: group, Topics: map[string][]int{topic: {int(partition)}},
	})
	if err != nil {
		return err
	}
	return first(done.Error, done.Topics[topic][0].Error)
}

func (a *admin) Cluster() (compat.Cluster, error) {
	found, err := a.client.Metadata(a.c.Go(), &kafka.MetadataRequest{})
	if err != nil {
		return compat.Cluster{}, err
	}
	nodes := map[int32]string{}
	for _, one := range found.Brokers {
		nodes[int32(one.ID)] = net.JoinHostPort(one.Host, strconv.Itoa(one.Port))
	}
	return compat.Cluster{ID: found.ClusterID, Controller: int32(found.Controller.ID), Nodes: nodes}, nil
}
