package engine

import "context"

// Listeners counts the connections that hear each of some channels, over all servers. known is false when one of them
// may not be asked, or does not answer; the others are counted all the same.
func (s *Session) Listeners(ctx context.Context, channels ...string) (total map[string]int64, known bool) {
	total, known = make(map[string]int64, len(channels)), true
	for _, node := range s.Client.Nodes() {
		counts, err := node.Do(ctx, node.B().PubsubNumsub().Channel(channels...).Build()).AsIntMap()
		if err != nil {
			known = false
			continue
		}
		for channel, n := range counts {
			total[channel] += n
		}
	}
	return total, known
}

// KeepersSeen counts the connections on which keepers hear each other, which those have as well that stand by. It is
// not known where the server may not be asked (PUBSUB NUMSUB), or cannot be. A keeper whose machine is gone without a
// word counts until the server notices, which is what its tcp-keepalive says.
func (s *Session) KeepersSeen(ctx context.Context) (seen int64, known bool) {
	channel := s.Core.Keys().ChannelKeepers()
	counts, known := s.Listeners(ctx, channel)
	return counts[channel], known || counts[channel] > 0
}
