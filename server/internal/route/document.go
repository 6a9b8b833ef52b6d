package route

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/server/internal/service"
)

// Description is the OpenAPI document of all operations.
type Description struct{ OpenAPI *huma.OpenAPI }

// Describe returns the document of a server of that version, without a server.
func Describe(version string) Description {
	var none *service.Service // its operations are described, not executed
	r := New(context.Background(), http.NewServeMux(), none, Config{Version: version})
	return Description{r.api.OpenAPI()}
}

// JSON returns the document as text with indents.
func (d Description) JSON() ([]byte, error) {
	text, err := d.OpenAPI.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// describe completes the document once all operations are there: replies have problems instead of the errors of huma,
// and lists of replies are never null.
func (r *Router) describe() {
	schemas := r.api.OpenAPI().Components.Schemas
	failed := schemas.Schema(reflect.TypeFor[api.Problem](), true, "")
	seen := map[string]bool{}
	noNulls(schemas, failed, seen)
	for _, item := range r.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if op == nil {
				continue
			}
			for status, reply := range op.Responses {
				for _, content := range reply.Content {
					if status == "default" {
						content.Schema = failed
					}
					noNulls(schemas, content.Schema, seen)
				}
			}
		}
	}
	delete(schemas.Map(), "ErrorModel")
	delete(schemas.Map(), "ErrorDetail")
}

// noNulls states that the lists of a schema, and of those that it refers to, are never null.
func noNulls(schemas huma.Registry, s *huma.Schema, seen map[string]bool) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		if seen[s.Ref] {
			return
		}
		seen[s.Ref] = true
		s = schemas.SchemaFromRef(s.Ref)
	}
	s.Nullable = false
	noNulls(schemas, s.Items, seen)
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		noNulls(schemas, more, seen)
	}
	for _, property := range s.Properties {
		noNulls(schemas, property, seen)
	}
}
