package main

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"magnetar/compat"
)

type admin struct {
	c      *compat.Context
	client *kgo.Client
	*kadm.Client
}

func (library) Admin(c *compat.Context) compat.Admin {
	client := connect(c, kgo.MetadataMinAge(10*time.Millisecond)) // kadm answers from a cache of this age
	return &admin{c, client, kadm.NewClient(client)}
}

// explained keeps the broker's words with its error.
func explained(err error, words string) error {
	if err != nil && words != "" {
		return fmt.Errorf("%w: %s", err, words)
	}
	return err
}

func (a *admin) Create(spec compat.TopicSpec) error {
	if spec.Assignment != nil { // kadm has no call with an assignment
		return a.createAssigned(spec)
	}
	configs := map[string]*string{}
	for name, value := range spec.Configs {
		configs[name] = &value
	}
	call := a.CreateTopics
	if spec.ValidateOnly {
		call = a.ValidateCreateTopics
	}
	done, err := call(a.c.Go(), spec.Partitions, spec.Replicas, configs, spec.Name)
	if err != nil {
		return err
	}
	return explained(done[spec.Name].Err, done[spec.Name].ErrMessage)
}

func (a *admin) createAssigned(spec compat.TopicSpec) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = spec.Name, -1, -1
	for partition, nodes := range spec.Assignment {
		one := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		one.Partition, one.Replicas = partition, nodes
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, one)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(a.c.Go(), a.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Topics[0].ErrorCode)
}

func (a *admin) Topics() ([]string, error) {
	found, err := a.ListTopics(a.c.Go())
	return found.Names(), err
}

func (a *admin) Describe(topic string) (compat.Topic, error) {
	all, err := a.ListTopics(a.c.Go(), topic)
	if err != nil {
		return compat.Topic{}, err
	}
	one := all[topic]
	found := compat.Topic{ID: hex.EncodeToString(one.ID[:]), Partitions: len(one.Partitions)}
	for _, partition := range one.Partitions {
		found.Leader = partition.Leader
		found.InSync += len(partition.ISR)
		if partition.Err != nil {
			return found, partition.Err
		}
	}
	return found, one.Err
}

func (a *admin) Delete(topic string) error {
	done, err := a.DeleteTopic(a.c.Go(), topic)
	if err != nil {
		return err
	}
	return done.Err
}

func (a *admin) DeleteByID(id string) error {
	found := kmsg.NewDeleteTopicsRequestTopic()
	copy(found.TopicID[:], compat.Try(hex.DecodeString(id)))
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.Topics = append(request.Topics, found)
	response, err := request.RequestWith(a.c.Go(), a.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Topics[0].ErrorCode)
}

func (a *admin) AddPartitions(topic string, count int) error {
	done, err := a.UpdatePartitions(a.c.Go(), count, topic)
	if err != nil {
		return err
	}
	return explained(done[topic].Err, done[topic].ErrMessage)
}

func configs(found kadm.ResourceConfigs, err error) (map[string]compat.Config, error) {
	all := map[string]compat.Config{}
	for _, resource := range found {
		if resource.Err != nil {
			return nil, explained(resource.Err, resource.ErrMessage)
		}
		for _, one := range resource.Configs {
			all[one.Key] = compat.Config{
				Value: one.MaybeValue(), Source: one.Source.String(), Default: one.Source == kmsg.ConfigSourceDefaultConfig,
			}
		}
	}
	return all, err
}

func (a *admin) TopicConfigs(topic string) (map[string]compat.Config, error) {
	return configs(a.DescribeTopicConfigs(a.c.Go(), topic))
}

func (a *admin) BrokerConfigs() (map[string]compat.Config, error) {
	brokers := compat.Try(a.ListBrokers(a.c.Go()))
	return configs(a.DescribeBrokerConfigs(a.c.Go(), brokers[0].NodeID))
}

var operations = map[string]kadm.IncrementalOp{
	"set": kadm.SetConfig, "delete": kadm.DeleteConfig, "append": kadm.AppendConfig, "subtract": kadm.SubtractConfig,
}

func (a *admin) Alter(topic, operation, name, value string) error {
	one := kadm.AlterConfig{Op: operations[operation], Name: name, Value: &value}
	done, err := a.AlterTopicConfigs(a.c.Go(), []kadm.AlterConfig{one}, topic)
	if err != nil {
		return err
	}
	return explained(done[0].Err, done[0].ErrMessage)
}

func (a *admin) Replace(topic string, configs map[string]string) error {
	all := []kadm.AlterConfig{}
	for name, value := range configs {
		all = append(all, kadm.AlterConfig{Name: name, Value: &value})
	}
	done, err := a.AlterTopicConfigsState(a.c.Go(), all, topic)
	if err != nil {
		return err
	}
	return explained(done[0].Err, done[0].ErrMessage)
}

func (a *admin) DeleteRecords(topic string, partition int32, offset int64) (int64, error) {
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, partition, offset, -1)
	done, err := a.Client.DeleteRecords(a.c.Go(), offsets)
	if err != nil {
		return 0, err
	}
	one := done[topic][partition]
	return one.LowWatermark, one.Err
}

func (a *admin) Offset(topic string, partition int32, when int64) (int64, error) {
	call := map[int64]func() (kadm.ListedOffsets, error){
		compat.Earliest:     func() (kadm.ListedOffsets, error) { return a.ListStartOffsets(a.c.Go(), topic) },
		compat.Latest:       func() (kadm.ListedOffsets, error) { return a.ListEndOffsets(a.c.Go(), topic) },
		compat.MaxTimestamp: func() (kadm.ListedOffsets, error) { return a.ListMaxTimestampOffsets(a.c.Go(), topic) },
	}[when]
	if call == nil {
		call = func() (kadm.ListedOffsets, error) { return a.ListOffsetsAfterMilli(a.c.Go(), when, topic) }
	}
	found, err := call()
	if err != nil {
		return 0, err
	}
	one := found[topic][partition]
	if when >= 0 && one.Timestamp == -1 { // kadm puts the end where the broker found nothing
		return -1, one.Err
	}
	return one.Offset, one.Err
}

func (a *admin) Groups() ([]string, error) {
	found, err := a.ListGroups(a.c.Go())
	return found.Groups(), err
}

func (a *admin) DescribeGroup(group string) (compat.Group, error) {
	all, err := a.DescribeGroups(a.c.Go(), group)
	if err != nil {
		return compat.Group{}, err
	}
	one := all[group]
	found := compat.Group{State: one.State, Assignor: one.Protocol}
	for _, member := range one.Members {
		entry := compat.GroupMember{ClientID: member.ClientID}
		if member.InstanceID != nil {
			entry.Instance = *member.InstanceID
		}
		if assigned, ok := member.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				entry.Partitions += len(topic.Partitions)
			}
		}
		found.Members = append(found.Members, entry)
	}
	return found, one.Err
}

func (a *admin) DeleteGroup(group string) error {
	done, err := a.Client.DeleteGroup(a.c.Go(), group)
	if err != nil {
		return err
	}
	return done.Err
}

func (a *admin) Commits(group, topic string) (map[int32]compat.Commit, error) {
	found, err := a.FetchOffsets(a.c.Go(), group)
	all := map[int32]compat.Commit{}
	for partition, one := range found[topic] {
		if one.Err != nil {
			return nil, one.Err
		}
		all[partition] = compat.Commit{Offset: one.At, Metadata: one.Metadata, Epoch: one.LeaderEpoch}
	}
	return all, err
}

func (a *admin) SetCommit(group, topic string, partition int32, commit compat.Commit) error {
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{
		Topic: topic, Partition: partition, At: commit.Offset, LeaderEpoch: commit.Epoch, Metadata: commit.Metadata,
	})
	return a.CommitAllOffsets(a.c.Go(), group, offsets)
}

func (a *admin) DeleteCommit(group, topic string, partition int32) error {
	set := kadm.TopicsSet{}
	set.Add(topic, partition)
	done, err := a.DeleteOffsets(a.c.Go(), group, set)
	if err != nil {
		return err
	}
	return done.Error()
}

func (a *admin) Cluster() (compat.Cluster, error) {
	found, err := a.BrokerMetadata(a.c.Go())
	nodes := map[int32]string{}
	for _, one := range found.Brokers {
		nodes[one.NodeID] = fmt.Sprintf("%s:%d", one.Host, one.Port)
	}
	return compat.Cluster{ID: found.Cluster, Controller: found.Controller, Nodes: nodes}, err
}

func (a *admin) Size(topic string) (int64, error) {
	set := kadm.TopicsSet{}
	set.Add(topic, 0)
	found, err := a.DescribeAllLogDirs(a.c.Go(), set)
	size := int64(0)
	found.Each(func(one kadm.DescribedLogDir) {
		if one.Err != nil {
			err = one.Err
		}
		size += one.Topics[topic][0].Size
	})
	return size, err
}

func (a *admin) RemoveMember(group, instance string) error {
	done, err := a.LeaveGroup(a.c.Go(), kadm.LeaveGroup(group).InstanceIDs(instance))
	if err != nil {
		return err
	}
	return done.Error()
}

func (a *admin) LastSequences(topic string) ([]int32, error) {
	set := kadm.TopicsSet{}
	set.Add(topic, 0)
	found, err := a.DescribeProducers(a.c.Go(), set)
	if err != nil {
		return nil, err
	}
	all := []int32{}
	for _, one := range found[topic].Partitions[0].ActiveProducers {
		all = append(all, one.LastSequence)
	}
	return all, found[topic].Partitions[0].Err
}

func (a *admin) Features() (int16, map[string][2]int16, error) {
	all, err := a.ApiVersions(a.c.Go())
	if err != nil {
		return 0, nil, err
	}
	one := all.Sorted()[0]
	if one.Err != nil {
		return 0, nil, one.Err
	}
	highest, _ := one.KeyMaxVersion(kmsg.Fetch.Int16())
	features := map[string][2]int16{}
	for _, feature := range one.Raw().SupportedFeatures {
		features[feature.Name] = [2]int16{feature.MinVersion, feature.MaxVersion}
	}
	return highest, features, nil
}

func init() {
	compat.Add("list_config_resources", func(c *compat.Context) {
		topic := c.Create(1)
		found := compat.Try(c.Admin().(*admin).ListConfigResources(c.Go(), kmsg.ConfigResourceTypeTopic))
		compat.Must(found.Err)
		compat.Check(strings.Contains(fmt.Sprint(found.Resources), topic), "the topic is missing")
	})
	compat.Add("transactions", transactions)
}

func transactions(c *compat.Context) {
	topic := c.Create(1)
	client := connect(c, kgo.TransactionalID(c.Group()), kgo.DefaultProduceTopic(topic))
	for n := range byte(3) {
		err := client.BeginTransaction() // asks for the producer id
		if n == 0 && err != nil && strings.Contains(err.Error(), kerr.TransactionalIDAuthorizationFailed.Message) {
			c.Refused = err.Error() // the client gives the code as words only
			return
		}
		compat.Must(err)
		compat.Must(client.ProduceSync(c.Go(), &kgo.Record{Value: []byte{n}}).FirstErr())
		compat.Must(client.EndTransaction(c.Go(), kgo.TransactionEndTry(n != 1)))
	}
	got := c.Read(topic, 1, 2, compat.Reading{Committed: true})
	compat.Same([]byte{got[0].Value[0], got[1].Value[0]}, []byte{0, 2}, "committed records")
}
