"""Generator of new tap and target projects: the command `tap-core new`."""

from tap_core.scaffold.project_options import Project as Project
from tap_core.scaffold.project_options import ProjectError as ProjectError
from tap_core.scaffold.render import write as write

__all__ = ["Project", "ProjectError", "write"]
