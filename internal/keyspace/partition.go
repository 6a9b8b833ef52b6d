package keyspace

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Family is a kind of partition, named after the records that it holds.
type Family uint8

// The families. The zero value is none of them, so that a forgotten partition is noticed.
const (
	// FlowFamily holds flows and executions; its tags are {fp:N}.
	FlowFamily Family = iota + 1
	// BudgetFamily holds budgets; its tags are {b:N}.
	BudgetFamily
	// QuotaFamily holds quota policies; its tags are {q:N}.
	QuotaFamily
)

func (f Family) code() string {
	switch f {
	case FlowFamily:
		return "fp"
	case BudgetFamily:
		return "b"
	case QuotaFamily:
		return "q"
	}
	return ""
}

// String names the family.
func (f Family) String() string {
	switch f {
	case FlowFamily:
		return "flow"
	case BudgetFamily:
		return "budget"
	case QuotaFamily:
		return "quota"
	}
	return "none"
}

// Partition is one share of a family's keys. All its keys carry its tag and live in one cluster slot. The zero value
// means none.
type Partition struct {
	Family Family
	Index  uint16
}

// Tag is the hash tag, such as {fp:7}, or "" for the zero value.
func (p Partition) Tag() string {
	if p.Family == FlowFamily && int(p.Index) < len(flowTags) {
		return flowTags[p.Index]
	}
	return p.tag()
}

func (p Partition) tag() string { return string(p.appendTag(make([]byte, 0, 16))) }

// flowTags are the tags of the flow partitions that most deployments have: each call names one.
var flowTags = func() (tags [256]string) {
	for i := range tags {
		tags[i] = Partition{FlowFamily, uint16(i)}.tag()
	}
	return tags
}()

func (p Partition) appendTag(text []byte) []byte {
	code := p.Family.code()
	if code == "" {
		return text
	}
	text = append(append(append(text, '{'), code...), ':')
	return append(strconv.AppendUint(text, uint64(p.Index), 10), '}')
}

// String is the tag.
func (p Partition) String() string { return p.Tag() }

// IsZero reports whether p is the zero value, which means none.
func (p Partition) IsZero() bool { return p.Family == 0 }

// ParsePartition reads a tag.
func ParsePartition(tag string) (Partition, error) {
	inner, open := strings.CutPrefix(tag, "{")
	inner, closed := strings.CutSuffix(inner, "}")
	code, index, colon := strings.Cut(inner, ":")
	if !open || !closed || !colon {
		return Partition{}, &IDError{"partition tag", tag, "not {family:N}"}
	}
	var p Partition
	switch code {
	case "fp":
		p.Family = FlowFamily
	case "b":
		p.Family = BudgetFamily
	case "q":
		p.Family = QuotaFamily
	default:
		return Partition{}, &IDError{"partition tag", tag, "unknown family"}
	}
	n, err := strconv.ParseUint(index, 10, 16)
	if err != nil || index != strconv.FormatUint(n, 10) {
		return Partition{}, &IDError{"partition tag", tag, "the number is not between 0 and 65535"}
	}
	p.Index = uint16(n)
	return p, nil
}

// Partitioning holds the partition counts of a deployment. They are fixed when it is first used.
type Partitioning struct {
	// Flow is the number of partitions for flows and executions.
	Flow int
	// Budget is the number of partitions for budgets.
	Budget int
	// Quota is the number of partitions for quota policies.
	Quota int
}

// maxPartitions is the number of partitions that the 16 bits of a partition number can distinguish.
const maxPartitions = 1 << 16

// Validate returns an error when a count is not between 1 and 65536.
func (p Partitioning) Validate() error {
	for _, x := range []struct {
		name  string
		count int
	}{{"flow", p.Flow}, {"budget", p.Budget}, {"quota", p.Quota}} {
		if x.count < 1 || x.count > maxPartitions {
			return fmt.Errorf("%d %s partitions: must be between 1 and %d", x.count, x.name, maxPartitions)
		}
	}
	return nil
}

// FlowPartition returns the partition of a flow and its executions. A flow id that is not a UUID is an error.
func (p Partitioning) FlowPartition(id enginecore.FlowID) (Partition, error) {
	return uuidPartition(FlowFamily, p.Flow, "flow id", string(id))
}

// BudgetPartition is where a budget lives.
func (p Partitioning) BudgetPartition(id enginecore.BudgetID) (Partition, error) {
	return uuidPartition(BudgetFamily, p.Budget, "budget id", string(id))
}

// QuotaPartition is where a quota policy lives.
func (p Partitioning) QuotaPartition(id enginecore.QuotaPolicyID) (Partition, error) {
	return uuidPartition(QuotaFamily, p.Quota, "quota policy id", string(id))
}

// SchedulePartition is where a schedule lives.
func (p Partitioning) SchedulePartition(id ScheduleID) (Partition, error) {
	return uuidPartition(FlowFamily, p.Flow, "schedule id", string(id))
}

// BulkJobPartition is where a bulk job lives.
func (p Partitioning) BulkJobPartition(id BulkJobID) (Partition, error) {
	return uuidPartition(FlowFamily, p.Flow, "bulk job id", string(id))
}

// RunKeyPartition is where the runs of a flow with one key live.
func (p Partitioning) RunKeyPartition(id RunKeyID) (Partition, error) {
	return uuidPartition(FlowFamily, p.Flow, "run key id", string(id))
}

// LanePartition is where executions of a lane live that belong to no flow.
func (p Partitioning) LanePartition(lane enginecore.LaneID) Partition {
	return Partition{FlowFamily, bucket(crc16([]byte(lane)), p.Flow)}
}

// FlowPartitions lists all partitions for flows, in order.
func (p Partitioning) FlowPartitions() []Partition { return p.Of(FlowFamily) }

// Of lists all partitions of a family, in order; none for an unknown family.
func (p Partitioning) Of(family Family) []Partition {
	count := 0
	switch family {
	case FlowFamily:
		count = p.Flow
	case BudgetFamily:
		count = p.Budget
	case QuotaFamily:
		count = p.Quota
	}
	list := make([]Partition, count)
	for i := range list {
		list[i] = Partition{Family: family, Index: uint16(i)}
	}
	return list
}

func uuidPartition(f Family, count int, kind, text string) (Partition, error) {
	u, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return Partition{}, &IDError{kind, text, "not a UUID"}
	}
	return Partition{f, bucket(crc16(u[:]), count)}, nil
}

func bucket(sum uint16, count int) uint16 {
	if count < 1 {
		return 0
	}
	return uint16(int(sum) % count)
}

// crcOfByte holds the checksum of every byte.
var crcOfByte = func() (table [256]uint16) {
	for i := range table {
		sum := uint16(i) << 8
		for range 8 {
			if sum&0x8000 != 0 {
				sum = sum<<1 ^ 0x1021
			} else {
				sum <<= 1
			}
		}
		table[i] = sum
	}
	return table
}()

// crc16 is the checksum that partitions and cluster slots are computed with: CRC-16/XMODEM, polynomial
// 0x1021, initial value 0.
func crc16(data []byte) uint16 {
	var sum uint16
	for _, b := range data {
		sum = sum<<8 ^ crcOfByte[byte(sum>>8)^b]
	}
	return sum
}
