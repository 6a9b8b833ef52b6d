package runtime

import (
	"fmt"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
)

// record holds fields of one stored hash; hashrecord.Read decodes it from the reply of an HMGET.
type record = hashrecord.Record

// readError classifies the error of a read as those of calls are: a refusal of the server keeps its class, anything else is
// enginecore.ErrUnavailable. command names what was read.
func readError(command string, err error) error {
	if _, refused := rueidis.IsRedisErr(err); refused {
		return fmt.Errorf("%s: %w", command, enginecore.ConnectError(err))
	}
	return fmt.Errorf("%s: %w: %w", command, enginecore.ErrUnavailable, err)
}
