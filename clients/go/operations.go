package seqd

import (
	"fmt"
	"strings"
)

type repeat int

const (
	// harmless requests may be sent again when their response is lost.
	harmless repeat = iota
	// withNonce requests too, if they have a nonce, by which the cluster recognizes them.
	withNonce
	never
)

// Operation is a route that programs use. The routes of operators are commands of seqd. A test compares the operations
// with docs/openapi.json.
type Operation struct {
	id, method, path string
	repeat           repeat
	// waits is true if the node may wait for wait_ms before it responds.
	waits bool
}

// The operations.
var (
	OpLive             = Operation{"live", "GET", "/livez", harmless, false}
	OpCluster          = Operation{"cluster", "GET", "/v1/cluster", harmless, false}
	OpId               = Operation{"id", "GET", "/v1/id", harmless, false}
	OpDeleteKeys       = Operation{"delete_keys", "DELETE", "/v1/idempotency", never, false}
	OpKeys             = Operation{"keys", "GET", "/v1/idempotency", harmless, false}
	OpDeleteKey        = Operation{"delete_key", "DELETE", "/v1/idempotency/{key}", never, false}
	OpKey              = Operation{"key", "GET", "/v1/idempotency/{key}", harmless, false}
	OpAbandonKey       = Operation{"abandon_key", "POST", "/v1/idempotency/{key}/abandon", never, false}
	OpBeginKey         = Operation{"begin_key", "POST", "/v1/idempotency/{key}/begin", withNonce, false}
	OpCompleteKey      = Operation{"complete_key", "POST", "/v1/idempotency/{key}/complete", harmless, false}
	OpIds              = Operation{"ids", "GET", "/v1/ids", harmless, false}
	OpIdParts          = Operation{"id_parts", "GET", "/v1/ids/{id}", harmless, false}
	OpLayouts          = Operation{"layouts", "GET", "/v1/layouts", harmless, false}
	OpCreateLayout     = Operation{"create_layout", "POST", "/v1/layouts", never, false}
	OpLayout           = Operation{"layout", "GET", "/v1/layouts/{name}", harmless, false}
	OpEncodeId         = Operation{"encode_id", "POST", "/v1/layouts/{name}/encode", harmless, false}
	OpLocks            = Operation{"locks", "GET", "/v1/locks", harmless, false}
	OpLock             = Operation{"lock", "GET", "/v1/locks/{name}", harmless, true}
	OpAcquireLock      = Operation{"acquire_lock", "POST", "/v1/locks/{name}/acquire", never, true}
	OpBreakLock        = Operation{"break_lock", "POST", "/v1/locks/{name}/break", never, false}
	OpReleaseLock      = Operation{"release_lock", "POST", "/v1/locks/{name}/release", never, false}
	OpRenewLock        = Operation{"renew_lock", "POST", "/v1/locks/{name}/renew", harmless, false}
	OpVerifyLock       = Operation{"verify_lock", "POST", "/v1/locks/{name}/verify", harmless, false}
	OpSequences        = Operation{"sequences", "GET", "/v1/sequences", harmless, false}
	OpDeleteSequence   = Operation{"delete_sequence", "DELETE", "/v1/sequences/{name}", never, false}
	OpSequence         = Operation{"sequence", "GET", "/v1/sequences/{name}", harmless, false}
	OpUpdateSequence   = Operation{"update_sequence", "PATCH", "/v1/sequences/{name}", never, false}
	OpCreateSequence   = Operation{"create_sequence", "PUT", "/v1/sequences/{name}", never, false}
	OpAdvance          = Operation{"advance", "POST", "/v1/sequences/{name}/advance", never, false}
	OpNext             = Operation{"next", "POST", "/v1/sequences/{name}/next", never, false}
	OpGrantSegment     = Operation{"grant_segment", "POST", "/v1/sequences/{name}/segments", never, false}
	OpReturnSegment    = Operation{"return_segment", "DELETE", "/v1/sequences/{name}/segments/{grant}", never, false}
	OpTimestamps       = Operation{"timestamps", "POST", "/v1/timestamps/next", harmless, false}
	OpDeleteAllOneTime = Operation{"delete_all_one_time", "DELETE", "/v1/tokens", never, false}
	OpOneTimeTokens    = Operation{"one_time_tokens", "GET", "/v1/tokens", harmless, false}
	OpIssueTokens      = Operation{"issue_tokens", "POST", "/v1/tokens", harmless, false}
	OpDeleteOneTime    = Operation{"delete_one_time", "DELETE", "/v1/tokens/{token}", never, false}
	OpConsumeToken     = Operation{"consume_token", "POST", "/v1/tokens/{token}/consume", withNonce, false}
	OpUuid             = Operation{"uuid", "GET", "/v1/uuid", harmless, false}
	OpUuids            = Operation{"uuids", "GET", "/v1/uuids", harmless, false}
	OpWorkers          = Operation{"workers", "GET", "/v1/workers", harmless, false}
	OpLeaseWorker      = Operation{"lease_worker", "POST", "/v1/workers", never, false}
	OpReleaseWorker    = Operation{"release_worker", "DELETE", "/v1/workers/{layout}/{id}/lease", never, false}
	OpRenewWorker      = Operation{"renew_worker", "PUT", "/v1/workers/{layout}/{id}/lease", harmless, false}
	OpVersion          = Operation{"version", "GET", "/version", harmless, false}
)

var operations = []Operation{
	OpLive, OpCluster, OpId, OpDeleteKeys, OpKeys, OpDeleteKey, OpKey, OpAbandonKey, OpBeginKey,
	OpCompleteKey, OpIds, OpIdParts, OpLayouts, OpCreateLayout, OpLayout, OpEncodeId, OpLocks, OpLock,
	OpAcquireLock, OpBreakLock, OpReleaseLock, OpRenewLock, OpVerifyLock, OpSequences, OpDeleteSequence,
	OpSequence, OpUpdateSequence, OpCreateSequence, OpAdvance, OpNext, OpGrantSegment, OpReturnSegment,
	OpTimestamps, OpDeleteAllOneTime, OpOneTimeTokens, OpIssueTokens, OpDeleteOneTime, OpConsumeToken,
	OpUuid, OpUuids, OpWorkers, OpLeaseWorker, OpReleaseWorker, OpRenewWorker, OpVersion,
}

// fill returns the path with its parameters in order, escaped.
func (o Operation) fill(parameters []any) (string, error) {
	path := o.path
	for _, parameter := range parameters {
		open, end := strings.Index(path, "{"), strings.Index(path, "}")
		if open < 0 {
			return "", invalid("more parameters than %s has", o.path)
		}
		path = path[:open] + escape(fmt.Sprint(parameter)) + path[end+1:]
	}
	if strings.Contains(path, "{") {
		return "", invalid("fewer parameters than %s has", o.path)
	}
	return path, nil
}

// escape escapes every byte except unreserved ones and the colon.
func escape(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~:", c) >= 0:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}
