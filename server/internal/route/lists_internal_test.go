package route

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Lists of replies that the document has as lists are never null, however deep they are.
func TestFillerReplacesNilLists(t *testing.T) {
	t.Parallel()
	reply := fabrictype.Page[fabrictype.Worker]{Items: []fabrictype.Worker{{Instance: "a"}}}
	filler(reflect.TypeOf(reply))(reflect.ValueOf(&reply).Elem())
	text, err := json.Marshal(reply)
	require.NoError(t, err)
	require.NotContains(t, string(text), "null")
	require.Contains(t, string(text), `"lanes":[]`)

	empty := fabrictype.Page[fabrictype.Worker]{}
	filler(reflect.TypeOf(empty))(reflect.ValueOf(&empty).Elem())
	require.NotNil(t, empty.Items)
}

// Replies without such lists are not walked.
func TestFillerOfTypesWithoutLists(t *testing.T) {
	t.Parallel()
	require.Nil(t, filler(reflect.TypeFor[api.StartedRun]()))
	require.Nil(t, filler(reflect.TypeFor[fabrictype.Lane]()))
}
