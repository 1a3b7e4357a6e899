package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/IBM/sarama"
	"magnetar/compat"
)

type admin struct {
	c *compat.Context
	sarama.ClusterAdmin
	client sarama.Client
}

// NoMaxTimestamp: its ListOffsets has versions up to 6, and that offset begins with 7.
func (*admin) NoMaxTimestamp() {}

func (l library) Admin(c *compat.Context) compat.Admin {
	client := compat.Try(sarama.NewClient([]string{c.Bootstrap}, l.config()))
	a := &admin{c, compat.Try(sarama.NewClusterAdminFromClient(client)), client}
	c.Closing(func() { compat.Must(a.Close()) })
	return a
}

// failed gives an error for a code, with the broker's words.
func failed(code sarama.KError, words string) error {
	if code == sarama.ErrNoError {
		return nil
	}
	return fmt.Errorf("%w: %s", code, words)
}

func pointers(configs map[string]string) map[string]*string {
	all := map[string]*string{}
	for name, value := range configs {
		all[name] = &value
	}
	return all
}

func (a *admin) Create(spec compat.TopicSpec) error {
	detail := &sarama.TopicDetail{
		NumPartitions: spec.Partitions, ReplicationFactor: spec.Replicas, ConfigEntries: pointers(spec.Configs),
		ReplicaAssignment: spec.Assignment,
	}
	return a.CreateTopic(spec.Name, detail, spec.ValidateOnly)
}

func (a *admin) Topics() ([]string, error) {
	found, err := a.ListTopics()
	names := []string{}
	for name := range found {
		names = append(names, name)
	}
	return names, err
}

func (a *admin) Describe(topic string) (compat.Topic, error) {
	all, err := a.DescribeTopics([]string{topic})
	if err != nil {
		return compat.Topic{}, err
	}
	found := compat.Topic{Partitions: len(all[0].Partitions)}
	if all[0].Uuid != (sarama.Uuid{}) {
		found.ID = hex.EncodeToString(all[0].Uuid[:])
	}
	for _, partition := range all[0].Partitions {
		found.Leader = partition.Leader
		found.InSync += len(partition.Isr)
		if partition.Err != sarama.ErrNoError {
			return found, partition.Err
		}
	}
	return found, failed(all[0].Err, "")
}

func (a *admin) Delete(topic string) error { return a.DeleteTopic(topic) }

func (a *admin) AddPartitions(topic string, count int) error {
	return a.CreatePartitions(topic, int32(count), nil, false)
}

func (a *admin) configs(kind sarama.ConfigResourceType, name string) (map[string]compat.Config, error) {
	resources := []*sarama.ConfigResource{{Type: kind, Name: name}}
	found, err := a.DescribeConfigs(resources, sarama.DescribeConfigsOptions{IncludeSynonyms: true})
	if err != nil {
		return nil, err
	}
	all := map[string]compat.Config{}
	for _, one := range found[0].Configs {
		all[one.Name] = compat.Config{Value: one.Value, Default: one.Default, Source: sources[one.Source]}
	}
	return all, failed(found[0].ErrorCode, found[0].ErrorMsg)
}

var sources = map[sarama.ConfigSource]string{sarama.SourceTopic: "DYNAMIC_TOPIC_CONFIG"}

func (a *admin) TopicConfigs(topic string) (map[string]compat.Config, error) {
	return a.configs(sarama.TopicResource, topic)
}

func (a *admin) node() int32 {
	brokers, _, err := a.DescribeCluster()
	compat.Must(err)
	return brokers[0].ID()
}

func (a *admin) BrokerConfigs() (map[string]compat.Config, error) {
	return a.configs(sarama.BrokerResource, strconv.Itoa(int(a.node())))
}

var operations = map[string]sarama.IncrementalAlterConfigsOperation{
	"set":      sarama.IncrementalAlterConfigsOperationSet,
	"delete":   sarama.IncrementalAlterConfigsOperationDelete,
	"append":   sarama.IncrementalAlterConfigsOperationAppend,
	"subtract": sarama.IncrementalAlterConfigsOperationSubtract,
}

func (a *admin) Alter(topic, operation, name, value string) error {
	one := sarama.IncrementalAlterConfigsEntry{Operation: operations[operation], Value: &value}
	entries := map[string]sarama.IncrementalAlterConfigsEntry{name: one}
	return a.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false)
}

func (a *admin) Replace(topic string, configs map[string]string) error {
	return a.AlterConfig(sarama.TopicResource, topic, pointers(configs), false)
}

// DeleteRecords of Sarama does not give the low watermark: ask for the beginning.
func (a *admin) DeleteRecords(topic string, partition int32, offset int64) (int64, error) {
	if err := a.ClusterAdmin.DeleteRecords(topic, map[int32]int64{partition: offset}); err != nil {
		return 0, err
	}
	return a.Offset(topic, partition, compat.Earliest)
}

func (a *admin) Offset(topic string, partition int32, when int64) (int64, error) {
	found, err := a.ListOffsets(map[string]map[int32]int64{topic: {partition: when}}, nil)
	if err != nil {
		return 0, err
	}
	one := found[topic][partition]
	if errors.Is(one.Err, sarama.ErrNoError) {
		return one.Offset, nil
	}
	return one.Offset, one.Err
}

func (a *admin) Groups() ([]string, error) {
	found, err := a.ListConsumerGroups()
	names := []string{}
	for name := range found {
		names = append(names, name)
	}
	return names, err
}

func (a *admin) DescribeGroup(group string) (compat.Group, error) {
	all, err := a.DescribeConsumerGroups([]string{group})
	if err != nil {
		return compat.Group{}, err
	}
	found := compat.Group{State: all[0].State, Assignor: all[0].Protocol}
	for _, member := range all[0].Members {
		entry := compat.GroupMember{ClientID: member.ClientId}
		if member.GroupInstanceId != nil {
			entry.Instance = *member.GroupInstanceId
		}
		assigned, err := member.GetMemberAssignment()
		if err != nil {
			return found, err
		}
		if assigned != nil {
			for _, partitions := range assigned.Topics {
				entry.Partitions += len(partitions)
			}
		}
		found.Members = append(found.Members, entry)
	}
	return found, failed(all[0].Err, "")
}

func (a *admin) DeleteGroup(group string) error { return a.DeleteConsumerGroup(group) }

func (a *admin) Commits(group, topic string) (map[int32]compat.Commit, error) {
	found, err := a.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return nil, err
	}
	all := map[int32]compat.Commit{}
	for partition, one := range found.Blocks[topic] {
		if one.Offset >= 0 {
			all[partition] = compat.Commit{Offset: one.Offset, Metadata: one.Metadata, Epoch: one.LeaderEpoch}
		}
	}
	return all, failed(found.Err, "")
}

func (a *admin) SetCommit(group, topic string, partition int32, commit compat.Commit) error {
	one := sarama.OffsetAndMetadata{Offset: commit.Offset, Metadata: commit.Metadata, LeaderEpoch: -1}
	offsets := map[string]map[int32]sarama.OffsetAndMetadata{topic: {partition: one}}
	for { // a coordinator that still loads is left to Sarama's users
		done, err := a.AlterConsumerGroupOffsets(group, offsets, nil)
		if err != nil {
			return err
		}
		code := done.Errors[topic][partition]
		if code != sarama.ErrOffsetsLoadInProgress || a.c.Left() <= 0 {
			return failed(code, "")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (a *admin) DeleteCommit(group, topic string, partition int32) error {
	return a.DeleteConsumerGroupOffset(group, topic, partition)
}

func (a *admin) Cluster() (compat.Cluster, error) {
	brokers, controller, err := a.DescribeCluster()
	if err != nil {
		return compat.Cluster{}, err
	}
	nodes := map[int32]string{}
	for _, one := range brokers {
		nodes[one.ID()] = one.Addr()
	}
	node, err := a.Controller()
	if err != nil {
		return compat.Cluster{}, err
	}
	metadata, err := node.GetMetadata(sarama.NewMetadataRequest(a.client.Config().Version, []string{}))
	if err != nil {
		return compat.Cluster{}, err
	}
	if metadata.ClusterID == nil {
		return compat.Cluster{}, errors.New("no cluster id")
	}
	return compat.Cluster{ID: *metadata.ClusterID, Controller: controller, Nodes: nodes}, nil
}

func (a *admin) Size(topic string) (int64, error) {
	node := a.node()
	found, err := a.DescribeLogDirs([]int32{node})
	size := int64(0)
	for _, folder := range found[node] {
		for _, one := range folder.Topics {
			if one.Topic == topic {
				for _, partition := range one.Partitions {
					size += partition.Size
				}
			}
		}
	}
	return size, err
}

func (a *admin) RemoveMember(group, instance string) error {
	done, err := a.RemoveMemberFromConsumerGroup(group, []string{instance})
	if err != nil {
		return err
	}
	for _, one := range done.Members {
		if one.Err != sarama.ErrNoError {
			return one.Err
		}
	}
	return failed(done.Err, "")
}

func (a *admin) LastSequences(topic string) ([]int32, error) {
	found, err := a.ClusterAdmin.(sarama.TransactionClusterAdmin).DescribeProducers(map[string][]int32{topic: {0}})
	if err != nil {
		return nil, err
	}
	one := found[topic][0]
	all := []int32{}
	for _, producer := range one.ActiveProducers {
		all = append(all, producer.LastSequence)
	}
	return all, failed(one.ErrorCode, "")
}

func (a *admin) Features() (int16, map[string][2]int16, error) {
	node, err := a.Controller()
	if err != nil {
		return 0, nil, err
	}
	found, err := node.ApiVersions(&sarama.ApiVersionsRequest{
		Version: 3, ClientSoftwareName: "compat", ClientSoftwareVersion: "1",
	})
	if err != nil {
		return 0, nil, err
	}
	const fetch = 1
	highest := int16(-1)
	for _, one := range found.ApiKeys {
		if one.ApiKey == fetch {
			highest = one.MaxVersion
		}
	}
	features := map[string][2]int16{}
	for _, one := range found.SupportedFeatures {
		features[one.Name] = [2]int16{one.MinVersion, one.MaxVersion}
	}
	return highest, features, failed(sarama.KError(found.ErrorCode), "")
}
