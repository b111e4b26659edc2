"""Approval for LlamaIndex workflows; needs the llama-index extra."""

from placet.hook.frameworks.llama_index.workflow import ApprovalDecided, ApprovalRequested, WorkflowApproval

__all__ = ["ApprovalDecided", "ApprovalRequested", "WorkflowApproval"]
