"""The operations that our own clients call, or whose URLs a new case contains, and that the server declares.

Handlers need the server's packages, and a client has only the core installation. So the addresses are here.
"""

from placet.http.route import OperationAddress

OPEN_CASE = OperationAddress("POST", "/v1/cases", "openCase")
POLL_CASE = OperationAddress("GET", "/v1/reviews/{case_id}/status", "pollCase")
FOLLOW_CASE = OperationAddress("GET", "/v1/reviews/{case_id}/events", "followCase")
RESPOND = OperationAddress("POST", "/v1/reviews/{case_id}/respond", "respond")
ANSWER_CASE = OperationAddress("POST", "/v1/reviews/{case_id}/answer", "answerCase")
LIST_CASES = OperationAddress("GET", "/v1/reviews", "listCases")
REPORT_CALLS = OperationAddress("POST", "/v1/reviews/{case_id}/receipts", "reportCalls")
CANCEL_CASE = OperationAddress("POST", "/v1/reviews/{case_id}/cancel", "cancelCase")
LIST_GRANTS = OperationAddress("GET", "/v1/grants", "listGrants")
USE_GRANT = OperationAddress("POST", "/v1/grants/use", "useGrant")
SHOW_GRANT = OperationAddress("GET", "/v1/grants/{grant_id}", "showGrant")
REVOKE_GRANT = OperationAddress("POST", "/v1/grants/{grant_id}/revoke", "revokeGrant")
